//! `log.cleaner.*`: how compaction runs. When a topic is worth it is its own configuration.

use super::values::Values;

#[derive(Clone, Debug, PartialEq)]
pub struct CleanerConfig {
    pub enable: bool,
    pub threads: i32,
    /// Rest when nothing needs cleaning.
    pub backoff_ms: i64,
    /// Memory for the maps of keys of all threads.
    pub dedupe_buffer_bytes: i64,
    /// How full a map may become.
    pub load_factor: f64,
    /// Read and write buffers of all threads.
    pub io_buffer_bytes: i32,
    /// Read and written by all threads.
    pub io_max_bytes_per_second: f64,
}

impl Default for CleanerConfig {
    fn default() -> CleanerConfig {
        CleanerConfig {
            enable: true,
            threads: 1,
            backoff_ms: 15_000,
            dedupe_buffer_bytes: 134_217_728,
            load_factor: 0.9,
            io_buffer_bytes: 524_288,
            io_max_bytes_per_second: f64::MAX,
        }
    }
}

impl CleanerConfig {
    pub(super) fn of(values: &Values) -> CleanerConfig {
        CleanerConfig {
            enable: values.boolean("log.cleaner.enable"),
            threads: values.number("log.cleaner.threads"),
            backoff_ms: values.number("log.cleaner.backoff.ms"),
            dedupe_buffer_bytes: values.number("log.cleaner.dedupe.buffer.size"),
            load_factor: values.double("log.cleaner.io.buffer.load.factor"),
            io_buffer_bytes: values.number("log.cleaner.io.buffer.size"),
            io_max_bytes_per_second: values.double("log.cleaner.io.max.bytes.per.second"),
        }
    }
}
