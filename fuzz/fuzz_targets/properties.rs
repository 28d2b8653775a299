//! `server.properties` and the settings of topics: the first byte chooses. What is read is written and read as the same,
//! and what one way of resolving accepts the other does.
#![no_main]

use klamm::config::{BrokerConfig, TopicConfig, properties};
use klamm_fuzz::bounded;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let Ok(given) = bounded(bytes.len(), || properties::parse(bytes)) else { return };
    let written = properties::write(&["a comment"], given.iter().map(|(key, value)| (&key[..], &value[..])));
    assert_eq!(properties::parse(written.as_bytes()).as_ref(), Ok(&given), "{written}");
    if choice & 1 == 0 {
        let Ok((config, _)) = bounded(bytes.len(), || BrokerConfig::load(bytes, &[])) else { return };
        let (again, _) = BrokerConfig::load(written.as_bytes(), &[]).expect("the same keys and values");
        assert_eq!(again, config);
        for listener in &config.listeners {
            let text = format!("listeners={listener}\nlistener.security.protocol.map={}:PLAINTEXT", listener.name);
            let (alone, _) = match BrokerConfig::load(text.as_bytes(), &[]) {
                Ok(alone) => alone,
                // The one between brokers may not be among them.
                Err(_) if listener.name != "PLAINTEXT" => continue,
                Err(error) => panic!("{text}: {error}"),
            };
            assert_eq!((&alone.listeners[0].host, alone.listeners[0].port), (&listener.host, listener.port));
        }
    } else {
        let defaults = TopicConfig::default();
        let strict = TopicConfig::resolve(&defaults, &given);
        let (lenient, errors) = TopicConfig::resolve_stored(&defaults, &given);
        if let Ok(strict) = strict {
            assert_eq!(lenient, strict);
        } else {
            assert!(!errors.is_empty(), "refused whole, but nothing in it is wrong");
        }
    }
});
