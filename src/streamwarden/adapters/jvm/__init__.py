"""Gateway to the JVM: Java, Spark home, jars and the class archive."""
