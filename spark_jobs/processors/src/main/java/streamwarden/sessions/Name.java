package streamwarden.sessions;

/** A session of a device. */
record Name(String device, String session) {}
