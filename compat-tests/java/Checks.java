import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import java.util.concurrent.ExecutionException;

/** What the programs have in common. Prints "ok NAME" or "FAIL NAME: why" for each check. */
class Checks {
    interface Check { void run() throws Exception; }

    static final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in));

    static String bootstrap;

    static void check(String name, Check check) {
        try {
            check.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            Throwable cause = error;
            while (cause instanceof ExecutionException && cause.getCause() != null) cause = cause.getCause();
            System.out.println("FAIL " + name + ": " + String.valueOf(cause).replace('\n', ' '));
        }
    }

    static void want(boolean right, Object what) {
        if (!right) throw new AssertionError(String.valueOf(what));
    }

    /** Asks whoever started the program, and is told when it is done. */
    static void ask(String what, String done) throws Exception {
        System.out.println(what);
        String answer = answers.readLine();
        want(done.equals(answer), answer);
    }

    static Properties properties(String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < pairs.length; i += 2) properties.put(pairs[i], pairs[i + 1]);
        return properties;
    }
}
