import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's tools, one after the other in one process, as if each had one of its own. A line of the standard input is a
 * command: class, standard input and arguments, each in base64, with blanks between them. A line of the output is the
 * answer: status, output, errors.
 */
public final class KafkaTools {
  /** Thrown instead of ending the process. */
  private static final class Ended extends Error {
    Ended() {
      super("ended", null, false, false);
    }
  }

  private static final List<Runnable> HOOKS = new ArrayList<>();
  private static Integer status;

  /** The first call counts. What a tool does after it, by catching everything, it would not have lived to do. */
  private static void end(int wanted, String message) {
    if (status == null) {
      status = wanted;
      System.out.flush();
      System.setOut(new PrintStream(OutputStream.nullOutputStream()));
      System.setErr(new PrintStream(OutputStream.nullOutputStream()));
    }
    throw new Ended();
  }

  private static String decoded(String word) {
    return new String(Base64.getDecoder().decode(word));
  }

  private static String encoded(ByteArrayOutputStream bytes) {
    return Base64.getEncoder().encodeToString(bytes.toByteArray());
  }

  private static int run(String name, String[] arguments) throws Throwable {
    status = null;
    try {
      Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
    } catch (InvocationTargetException wrapped) {
      if (!(wrapped.getCause() instanceof Ended)) {
        wrapped.getCause().printStackTrace();
        status = 1;
      }
    }
    return status == null ? 0 : status;
  }

  public static void main(String[] told) throws Throwable {
    Exit.setExitProcedure(KafkaTools::end);
    Exit.setHaltProcedure(KafkaTools::end);
    Exit.setShutdownHookAdder((name, hook) -> HOOKS.add(hook));
    PrintStream answers = System.out;
    InputStream commands = System.in;
    BufferedReader lines = new BufferedReader(new InputStreamReader(commands));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = Arrays.stream(line.split(" ")).map(KafkaTools::decoded).toArray(String[]::new);
      ByteArrayOutputStream output = new ByteArrayOutputStream();
      ByteArrayOutputStream errors = new ByteArrayOutputStream();
      System.setIn(new ByteArrayInputStream(words[1].getBytes()));
      PrintStream said = new PrintStream(output, true);
      System.setOut(said);
      System.setErr(new PrintStream(errors, true));
      int ended = run(words[0], Arrays.copyOfRange(words, 2, words.length));
      System.setOut(said);
      HOOKS.forEach(Runnable::run);
      HOOKS.clear();
      System.out.flush();
      answers.println(ended + " " + encoded(output) + " " + encoded(errors) + " .");
    }
  }
}
