import java.io.*;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's command line tools, one after the other in one JVM. A line of standard input is what the tool reads on its own, with
 * U+001E for the ends of lines, a class and its arguments, joined by U+001F. The answer is a line with the exit code and the lengths of what the tool said on its standard output and error,
 * and then those bytes.
 */
public class Tools {
    static class Ended extends RuntimeException {}

    /** What the running tool says; after it has asked to end, nothing. */
    static class Heard extends OutputStream {
        final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public void write(int b) {
            if (exit == null) bytes.write(b);
        }

        @Override
        public void write(byte[] b, int from, int length) {
            if (exit == null) bytes.write(b, from, length);
        }
    }

    static volatile Integer exit;

    public static void main(String[] arguments) throws Exception {
        Exit.Procedure end = (code, message) -> {
            System.out.flush();
            System.err.flush();
            if (exit == null) exit = code;
            throw new Ended();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        OutputStream answers = new BufferedOutputStream(System.out);
        Heard out = new Heard(), err = new Heard();
        // Once, before any tool: Scala keeps the stream that it finds first.
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        for (String line; (line = asked.readLine()) != null; ) {
            String[] words = line.split("\u001f", -1);
            System.setIn(new ByteArrayInputStream(words[0].replace('\u001e', '\n').getBytes(StandardCharsets.UTF_8)));
            exit = null;
            out.bytes.reset();
            err.bytes.reset();
            int code = 0;
            try {
                String[] given = Arrays.copyOfRange(words, 2, words.length);
                Class.forName(words[1]).getMethod("main", String[].class).invoke(null, (Object) given);
            } catch (InvocationTargetException thrown) {
                if (!(thrown.getCause() instanceof Ended)) {
                    thrown.getCause().printStackTrace();
                    code = 1;
                }
            }
            if (exit != null) code = exit;
            byte[] said = out.bytes.toByteArray(), complained = err.bytes.toByteArray();
            answers.write((code + " " + said.length + " " + complained.length + "\n").getBytes(StandardCharsets.UTF_8));
            answers.write(said);
            answers.write(complained);
            answers.flush();
        }
        System.exit(0);
    }
}
