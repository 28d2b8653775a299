//! Who may cost the others of its thread time goes one at a time.
//!
//! A thread runs what is ready in the order in which it became ready: who comes behind a hundred connections that each take a
//! third of a millisecond waits for all of them. So those that may take as long, because nothing is known of them yet or
//! because they did before, stand in line, and whenever the thread has looked at its sockets one of them goes on.

use std::cell::RefCell;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// One who waits.
type Call = oneshot::Sender<()>;

thread_local! {
    /// This thread's line: no longer than it has connections.
    static LINE: RefCell<Option<UnboundedSender<Call>>> = const { RefCell::new(None) };
}

/// Until it is this task's turn, which lasts until it waits for something. Safe to drop while waiting.
pub async fn stand() {
    let (call, called) = oneshot::channel();
    join(call);
    // An error means that the runtime ends.
    let _ = called.await;
}

fn join(call: Call) {
    LINE.with_borrow_mut(|line| {
        let call = match line {
            Some(line) => match line.send(call) {
                Ok(()) => return,
                // Its runtime is gone.
                Err(refused) => refused.0,
            },
            None => call,
        };
        let (send, waiting) = unbounded_channel();
        tokio::spawn(usher(waiting));
        let _ = send.send(call);
        *line = Some(send);
    });
}

async fn usher(mut waiting: UnboundedReceiver<Call>) {
    while let Some(next) = waiting.recv().await {
        // Who went away meanwhile takes nobody's turn.
        if next.send(()).is_ok() {
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn who_is_in_a_hurry_waits_for_one_of_them() {
        const CROWD: usize = 100;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (server, _) = listener.accept().await.expect("accepted");
        let gone_on = Arc::new(AtomicUsize::new(0));
        for _ in 0..CROWD {
            let gone_on = gone_on.clone();
            tokio::spawn(async move {
                stand().await;
                gone_on.fetch_add(1, Ordering::Relaxed);
            });
        }
        // All are in line, and the first goes on.
        while gone_on.load(Ordering::Relaxed) == 0 {
            yield_now().await;
        }
        client.write_all(b"now").expect("sent");
        server.readable().await.expect("open");
        let before = gone_on.load(Ordering::Relaxed);
        assert!(before <= 10, "{before} of {CROWD} went first");
        while gone_on.load(Ordering::Relaxed) < CROWD {
            yield_now().await;
        }
    }

    #[test]
    fn a_line_ends_with_its_runtime_and_who_left_it_takes_no_turn() {
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(async {
                assert!(stand().now_or_never().is_none(), "it left");
                stand().await;
            });
        }
    }
}
