import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Moves the clock of a broker over HTTP, with nothing but the JDK; prints what it answers. */
class Control {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(arguments[0] + "/v1/control/clock"))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofString("{\"milliseconds\": 1000}"))
                .build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(answer.body());
        }
        System.out.println(answer.body());
    }
}
