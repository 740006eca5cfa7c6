import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;

/**
 * A Kafka Streams application of the streams protocol (KIP-1071) with exactly_once_v2: two sources are put by the first
 * letter of their values, through repartition topics, and joined: every value of one with every value of the other that
 * begins alike, once. Both sides of the join have a store with a changelog. Runs until its standard input ends.
 *
 * <pre>StreamsPairs bootstrap application left right sink stateFolder</pre>
 */
public final class StreamsPairs {
  public static void main(String[] told) throws Exception {
    Properties settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, told[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, told[1]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, told[5]);
    settings.put("group.protocol", "streams");
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    settings.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG,
        BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    settings.put(StreamsConfig.consumerPrefix("max.poll.records"), 50);
    settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 10000);

    Serde<String> text = Serdes.String();
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, String> left = builder.stream(told[2], Consumed.with(text, text))
        .selectKey((key, value) -> value.substring(0, 1));
    KStream<String, String> right = builder.stream(told[3], Consumed.with(text, text))
        .selectKey((key, value) -> value.substring(0, 1));
    left.join(right, (one, other) -> one + " " + other,
            JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofHours(1)), StreamJoined.with(text, text, text))
        .to(told[4], Produced.with(text, text));

    KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
    streams.setUncaughtExceptionHandler(error -> {
      System.out.println("replaced " + error);
      return StreamThreadExceptionResponse.REPLACE_THREAD;
    });
    streams.setStateListener((now, before) -> System.out.println("state " + now));
    streams.start();
    while (System.in.read() >= 0) {
      // Until nobody holds the other end.
    }
    streams.close(Duration.ofSeconds(60));
    System.out.println("closed");
  }
}
