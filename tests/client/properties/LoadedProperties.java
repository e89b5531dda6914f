import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.util.HexFormat;
import java.util.Properties;

import static java.nio.charset.StandardCharsets.UTF_16BE;

/** What java.util.Properties loads of each line of stdin: text, names and values in hex of UTF-16. */
public class LoadedProperties {
    public static void main(String[] args) throws Exception {
        HexFormat hex = HexFormat.of();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            Properties loaded = new Properties();
            StringBuilder told = new StringBuilder();
            try {
                loaded.load(new StringReader(new String(hex.parseHex(line), UTF_16BE)));
                loaded.forEach((name, value) -> told
                        .append(hex.formatHex(((String) name).getBytes(UTF_16BE))).append(':')
                        .append(hex.formatHex(((String) value).getBytes(UTF_16BE))).append(' '));
            } catch (IllegalArgumentException refused) {
                told.append('!');
            }
            System.out.println(told);
        }
    }
}
