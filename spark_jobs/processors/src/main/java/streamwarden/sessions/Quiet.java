package streamwarden.sessions;

import java.util.HashSet;
import java.util.Set;

/** The sessions of a bucket that live on, and of which no reading has come: their rows need no more than their state. */
final class Quiet {
    private final boolean named;
    private boolean any;

    /** Their devices, if the rules ask for them. */
    final Set<String> devices = new HashSet<>();

    Quiet(Rules rules) {
        this.named = !rules.remembers();
    }

    void add(String device) {
        any = true;
        if (named) {
            devices.add(device);
        }
    }

    boolean isEmpty() {
        return !any;
    }
}
