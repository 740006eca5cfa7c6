package tallystick.testcontainers;

import com.github.dockerjava.api.command.InspectContainerResponse;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;
import org.testcontainers.images.builder.Transferable;
import org.testcontainers.utility.DockerImageName;

/**
 * A broker in a container. Programs on this machine connect to {@link #getBootstrapServers()}, other containers of its
 * network to {@link #getNetworkBootstrapServers()}.
 *
 * <p>The port that an engine gives to a container is known once it runs, and has to be what clients are told. So the
 * broker is started with the name of a file and waits for it; the address is copied to there.
 */
public class TallystickContainer extends GenericContainer<TallystickContainer> {
  private static final DockerImageName IMAGE = DockerImageName.parse("tallystick");
  private static final int PORT = 9092;
  private static final int NETWORK_PORT = 19092;
  private static final String ADVERTISED = "/tmp/advertised.listeners";

  public TallystickContainer() {
    this(IMAGE);
  }

  public TallystickContainer(String image) {
    this(DockerImageName.parse(image));
  }

  public TallystickContainer(DockerImageName image) {
    super(image);
    withExposedPorts(PORT);
    withEnv("KAFKA_LISTENERS", "PLAINTEXT://0.0.0.0:" + PORT + ",NETWORK://0.0.0.0:" + NETWORK_PORT);
    withEnv("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "PLAINTEXT:PLAINTEXT,NETWORK:PLAINTEXT");
    withEnv("KAFKA_TALLYSTICK_ADVERTISED_LISTENERS_FILE", ADVERTISED);
    withDurability("page-cache");
    waitingFor(Wait.forLogMessage(".*tallystick listens on .*\\n", 1));
  }

  /** A setting of the broker by Kafka's name, such as {@code log.retention.ms}. */
  public TallystickContainer withSetting(String name, String value) {
    String variable = name.replace("_", "__").replace("-", "___").replace(".", "_").toUpperCase(Locale.ROOT);
    return withEnv("KAFKA_" + variable, value);
  }

  /** {@code fsync}: an acknowledgement means that the record is on the disk. By default it does not wait for that. */
  public TallystickContainer withDurability(String durability) {
    return withSetting("tallystick.durability", durability);
  }

  /** For programs on this machine. */
  public String getBootstrapServers() {
    return getHost() + ":" + getMappedPort(PORT);
  }

  /** For other containers of its network. */
  public String getNetworkBootstrapServers() {
    return networkName() + ":" + NETWORK_PORT;
  }

  /** Each container of a network has an alias of its own. */
  private String networkName() {
    return getNetworkAliases().get(getNetworkAliases().size() - 1);
  }

  @Override
  protected void containerIsStarting(InspectContainerResponse started) {
    String told = "PLAINTEXT://" + getBootstrapServers() + ",NETWORK://" + getNetworkBootstrapServers() + "\n";
    copyFileToContainer(Transferable.of(told.getBytes(StandardCharsets.UTF_8)), ADVERTISED);
  }
}
