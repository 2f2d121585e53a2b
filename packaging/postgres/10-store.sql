-- Run once, by the PostgreSQL image, when its volume is empty.
CREATE DATABASE streamwarden OWNER streamwarden;
