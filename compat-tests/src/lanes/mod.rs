//! The lanes.

mod bad_days;
mod bad_disks;
mod bad_zookeepers;
mod chaos;
mod checks;
mod cli;
mod cli_groups;
mod cluster;
mod durability;
mod exactly_once;
mod franz_go;
mod fuzz;
mod group_kills;
mod hostile;
mod images;
mod java;
mod java_tools;
mod kafkajs;
mod kcat;
mod librdkafka;
mod load;
mod mixed;
mod move_kills;
mod operators;
mod power_loss;
mod python;
mod sarama;
mod scores;
mod steady;
mod suites;
mod tools;
mod tools_twin;
mod transcripts;
mod zookeeper_tools;

use crate::lane::Lane;
use crate::twin;

/// In the order in which they run.
pub const ALL: &[Lane] = &[
    Lane { name: "kcat", what: "kcat 1.7.1 as Debian ships it", run: kcat::lane },
    Lane { name: "rdkafka", what: "a recent librdkafka through the rdkafka crate", run: librdkafka::lane },
    Lane { name: "java", what: "Java kafka-clients 3.9.1 and 4.1.0, transactions of 0.11 to 4.2", run: java::lane },
    Lane { name: "tools", what: "Kafka's own command line tools, on the broker and on its files", run: tools::lane },
    Lane {
        name: "tools-twin",
        what: "Kafka's command line tools ask a real Kafka 3.9.1 and Klamm the same",
        run: tools_twin::lane,
    },
    Lane { name: "cli", what: "klamm's own commands, beside Kafka's where both print the same", run: cli::lane },
    Lane { name: "franz-go", what: "franz-go and kadm", run: franz_go::lane },
    Lane { name: "kafka-python", what: "kafka-python 2.0.2 and 3.0", run: python::kafka_python },
    Lane { name: "sarama", what: "sarama 1.61.1, as the newest and as an old client", run: sarama::lane },
    Lane { name: "aiokafka", what: "aiokafka 0.14", run: python::aiokafka },
    Lane { name: "confluent-kafka", what: "confluent-kafka 2.16 for Python", run: python::confluent_kafka },
    Lane { name: "kafkajs", what: "KafkaJS 2.2.4", run: kafkajs::lane },
    Lane { name: "kgo-suite", what: "franz-go's own tests of kgo 1.22.3", run: suites::kgo },
    Lane { name: "kgo-suite-3", what: "the same on three brokers, three replicas", run: suites::kgo_three },
    Lane { name: "librdkafka-suite", what: "librdkafka's own broker tests", run: suites::librdkafka },
    Lane {
        name: "librdkafka-suite-3",
        what: "the same on three brokers, three replicas (full form only)",
        run: suites::librdkafka_three,
    },
    Lane {
        name: "sarama-suite",
        what: "sarama's own functional tests, on five brokers behind proxies that they break (full form only)",
        run: suites::sarama,
    },
    Lane { name: "kafka-python-suite", what: "kafka-python's own integration tests", run: suites::kafka_python },
    Lane {
        name: "rdkafka-suite",
        what: "the rdkafka crate's own integration tests (full form only)",
        run: suites::rdkafka,
    },
    Lane {
        name: "streams",
        what: "Kafka Streams 3.9.1 counts exactly once on three brokers that are killed (full form only)",
        run: exactly_once::streams,
    },
    Lane {
        name: "connect",
        what: "Connect 3.9.1 with an exactly-once source, the same way (full form only)",
        run: exactly_once::connect,
    },
    Lane {
        name: "twin",
        what: "the same bytes to a real Kafka 3.9.1, answers compared field by field",
        run: twin::lane,
    },
    Lane { name: "durability", what: "kill -9 in the middle of a produce load", run: durability::lane },
    Lane { name: "cluster", what: "three brokers on a ZooKeeper that lose each other, under load", run: cluster::lane },
    Lane {
        name: "chaos",
        what: "faults of processes, sessions and wires, judged by the history of what clients were told",
        run: chaos::lane,
    },
    Lane {
        name: "operators",
        what: "klamm's commands for a cluster and Kafka's, one act after the other on three brokers",
        run: operators::lane,
    },
    Lane {
        name: "zookeeper-tools",
        what: "Kafka's tools, those of 2.8.2 that speak to ZooKeeper too, on three brokers and on a real Kafka's",
        run: zookeeper_tools::lane,
    },
    Lane {
        name: "transcripts",
        what: "the nodes in ZooKeeper after acts that were recorded of a real Kafka (full form only)",
        run: transcripts::lane,
    },
    Lane {
        name: "mixed",
        what: "Klamm and a real Kafka 3.9.1 in one cluster, under either's controller",
        run: mixed::lane,
    },
    Lane {
        name: "power-loss",
        what: "a file system that loses what was not synced (full form only)",
        run: power_loss::lane,
    },
    Lane {
        name: "images",
        what: "the image, and compose files for Kafka's images with its name in them (full form only)",
        run: images::lane,
    },
    Lane { name: "hostile", what: "peers that mean harm, while a producer works", run: hostile::lane },
    Lane { name: "fuzz", what: "libFuzzer on what parses bytes of peers and disks", run: fuzz::lane },
    Lane { name: "bad-days", what: "directories, disks, ports and settings that are wrong", run: bad_days::lane },
];
