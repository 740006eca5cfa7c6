import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job that copies one topic into another, in a cluster inside this process, until it is killed. Its task fails the
 * first time that it meets a value that begins with "fail".
 *
 * <pre>FlinkCopy bootstrap in out folderOfCheckpoints naming guarantee [checkpointToBeginWith]</pre>
 */
public final class FlinkCopy {
  private static final Set<String> FAILED = ConcurrentHashMap.newKeySet();

  /** Fails once for each value that asks for it. */
  public static final class Failing implements MapFunction<String, String> {
    @Override
    public String map(String value) {
      if (value.startsWith("fail") && FAILED.add(value)) {
        throw new IllegalStateException("asked to fail by " + value);
      }
      return value;
    }
  }

  public static void main(String[] told) throws Exception {
    Configuration settings = Configuration.fromMap(Map.of(
        "execution.checkpointing.interval", "300ms",
        "execution.checkpointing.mode", "EXACTLY_ONCE",
        "execution.checkpointing.dir", told[3],
        "execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.tolerable-failed-checkpoints", "1000",
        "restart-strategy.type", "fixed-delay",
        "restart-strategy.fixed-delay.attempts", "1000",
        "restart-strategy.fixed-delay.delay", "200ms"));
    if (told.length > 6) {
      settings.setString("execution.state-recovery.path", told[6]);
    }
    StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
    environment.setParallelism(2);
    KafkaSource<String> source = KafkaSource.<String>builder()
        .setBootstrapServers(told[0])
        .setTopics(told[1])
        .setGroupId("flink")
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setProperty("isolation.level", "read_committed")
        .setValueOnlyDeserializer(new SimpleStringSchema())
        .build();
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(told[0])
        .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
            .setTopic(told[2])
            .setValueSerializationSchema(new SimpleStringSchema())
            .build())
        .setDeliveryGuarantee(DeliveryGuarantee.valueOf(told[5]))
        .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(told[4]))
        .setTransactionalIdPrefix("flink")
        // Flink's own default, an hour, is more than transaction.max.timeout.ms. Longer than a test: nothing that an
        // earlier life left open ends by itself.
        .setProperty("transaction.timeout.ms", "900000")
        .build();
    environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in")
        .map(new Failing())
        .sinkTo(sink);
    environment.execute("copy");
  }
}
