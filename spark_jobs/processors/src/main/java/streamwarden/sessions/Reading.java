package streamwarden.sessions;

/**
 * What a device said.
 *
 * @param at Unix milliseconds, of the reading or of its batch
 */
record Reading(long at, Name name, String state) {}
