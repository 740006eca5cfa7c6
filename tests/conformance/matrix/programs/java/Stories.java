import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.Callable;
import org.apache.kafka.common.header.Header;

/** The Java client in the stories: reads them, has {@link Teller} take the steps, prints what was seen. */
public final class Stories {
    static final long PATIENCE_MS = 30_000;
    private static final ObjectMapper JSON = new ObjectMapper();

    /** The client has no such thing, in a sentence. */
    static final class NotOffered extends Exception {
        NotOffered(String reason) {
            super(reason);
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (JsonNode story : JSON.readTree(new File(arguments[0]))) {
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("story", story.get("name").asText());
            try (Teller teller = new Teller(story.get("at"))) {
                told.put("observed", tell(teller, story.get("steps")));
            } catch (NotOffered reason) {
                told.put("not offered", reason.getMessage());
            }
            System.out.println(JSON.writeValueAsString(told));
            System.out.flush();
        }
        System.exit(0);
    }

    /** What was seen at each step, up to the first that is refused unexpectedly. */
    private static List<Object> tell(Teller teller, JsonNode steps) throws NotOffered {
        List<Object> observed = new ArrayList<>();
        for (JsonNode step : steps) {
            try {
                observed.add(step.path("eventually").asBoolean() ? lastOf(teller, step) : teller.take(step));
            } catch (NotOffered reason) {
                throw reason;
            } catch (Exception error) {
                observed.add(Map.of("error", said(error)));
                if (!step.path("gives").has("error")) {
                    break;
                }
            }
        }
        return observed;
    }

    /** A step again and again, until it gives what it must. */
    private static Object lastOf(Teller teller, JsonNode step) throws Exception {
        waitUntil(() -> {
            try {
                return JSON.valueToTree(teller.take(step)).asText().equals(step.get("gives").asText());
            } catch (NoSuchElementException notYet) {
                return false;
            }
        });
        return teller.take(step);
    }

    private static String said(Throwable error) {
        String cause = error.getCause() == null ? "" : ", " + said(error.getCause());
        return error.getClass().getSimpleName() + ": " + error.getMessage() + cause;
    }

    /** A key or a value of the list as bytes. */
    static byte[] written(JsonNode text) {
        if (text == null || text.isNull()) {
            return null;
        }
        String whole = text.isObject() ? text.get("of").asText().repeat(text.get("times").asInt()) : text.asText();
        return whole.getBytes(StandardCharsets.UTF_8);
    }

    /** As the list writes it. */
    static Object shown(byte[] value) {
        if (value == null) {
            return null;
        }
        String text = new String(value, StandardCharsets.UTF_8);
        if (text.length() > 200 && text.chars().distinct().count() == 1) {
            return Map.of("of", text.substring(0, 1), "times", text.length());
        }
        return text;
    }

    static Map<String, Object> wholeRecord(byte[] key, byte[] value, Iterable<Header> headers) {
        List<Object> told = new ArrayList<>();
        for (Header header : headers) {
            told.add(header.value() == null
                    ? List.of(header.key())
                    : Arrays.asList(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
        }
        Map<String, Object> record = new HashMap<>();
        record.put("key", shown(key));
        record.put("value", shown(value));
        record.put("headers", told);
        return record;
    }

    /** Waits for something that the other side gives no notice of; whether it came. */
    static boolean waitUntil(Callable<Boolean> condition) throws Exception {
        long ends = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.call()) {
            if (System.currentTimeMillis() > ends) {
                return false;
            }
            Thread.sleep(10);
        }
        return true;
    }
}
