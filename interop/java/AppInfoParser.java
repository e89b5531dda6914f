package org.apache.kafka.common.utils;

/** Where the file connectors of Connect 4.3 look for the version of Kafka, which 4.4 has moved to its internals. */
public class AppInfoParser {
    private AppInfoParser() {}

    public static String getVersion() {
        return org.apache.kafka.common.utils.internals.AppInfoParser.getVersion();
    }
}
