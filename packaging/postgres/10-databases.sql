-- Run once, by the PostgreSQL image, when its volume is empty. Airflow's own database is the image's POSTGRES_DB.
CREATE DATABASE streamwarden OWNER streamwarden;  -- the store
CREATE DATABASE warehouse OWNER streamwarden;     -- the tables of streams with `sink: {kind: postgresql}`
