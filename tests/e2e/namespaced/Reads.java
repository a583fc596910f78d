import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.rocksdb.FlushOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;

/** Reads keys of a RocksDB for ever; the library, which was unpacked from the jar, is deleted before. */
class Reads {
    static final int KEYS = 50_000;

    static byte[] key(int number) {
        return String.format("%016d", number).getBytes();
    }

    public static void main(String[] arguments) throws Exception {
        RocksDB.loadLibrary();
        try (Options options = new Options().setCreateIfMissing(true); RocksDB db = RocksDB.open(options, arguments[0])) {
            byte[][] keys = new byte[KEYS][];
            for (int i = 0; i < KEYS; i++) {
                keys[i] = key(i);
                db.put(keys[i], new byte[100]);
            }
            db.flush(new FlushOptions().setWaitForFlush(true));
            for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
                if (line.contains("librocksdbjni") && !line.endsWith("(deleted)")) {
                    Files.deleteIfExists(Path.of(line.substring(line.indexOf('/'))));
                }
            }
            System.out.println("begun");
            Random random = new Random(7);
            while (db.get(keys[random.nextInt(KEYS)]) != null) {
            }
        }
    }
}
