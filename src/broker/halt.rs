//! The one way a running broker ends by itself: something it cannot do without is gone, and a sentence says what.
//!
//! Nothing is closed in order then, and no clean marker is written: the next start checks everything.

use std::sync::Arc;

use tokio::sync::watch;

/// Asks for the end; cloned freely, from whatever thread.
#[derive(Clone, Debug)]
pub struct Halt(Arc<watch::Sender<Option<String>>>);

impl Halt {
    pub fn new() -> Halt {
        Halt(Arc::new(watch::Sender::new(None)))
    }

    /// The first reason stays.
    pub fn because(&self, sentence: impl Into<String>) {
        self.0.send_if_modified(|reason| {
            let first = reason.is_none();
            if first {
                *reason = Some(sentence.into());
            }
            first
        });
    }

    /// The reason, once there is one.
    pub async fn asked(&self) -> String {
        let mut reasons = self.0.subscribe();
        match reasons.wait_for(Option::is_some).await.map(|reason| reason.clone()) {
            Ok(Some(reason)) => reason,
            // The sender lives as long as this does.
            _ => std::future::pending().await,
        }
    }
}
