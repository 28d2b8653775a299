//! One connection: read a request, have it answered, write the answer, in order, until either side ends it.
//!
//! One request at a time is served, as in Kafka; what a client sends ahead waits in the kernel or in the buffer it was
//! read into. Answers to requests that were already here and needed no waiting leave in one write.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use std::{future, io};

use futures_util::FutureExt;

use super::budget::RequestBudget;
use super::listener::Stream;
use super::pool::{BufferPool, FileBuffers};
use super::reader::FrameReader;
use super::writer::{ENOUGH, ResponseWriter, TooLong};
use crate::api::{self, Connection, Reply, Services};
use crate::spawn::Shutdown;
use crate::wire::frame::FrameError;

/// What all connections share.
pub struct Shared {
    pub services: Arc<Services>,
    pub read_buffers: Arc<BufferPool>,
    pub file_buffers: Arc<FileBuffers>,
    pub budget: Option<Arc<RequestBudget>>,
    pub shutdown: Shutdown,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum End {
    #[error("closed by the peer")]
    Peer,
    #[error("closed by the peer inside a request")]
    PeerInsideRequest,
    #[error(transparent)]
    Io(#[from] io::Error),
    /// With the first bytes of the frame.
    #[error("{error}")]
    Frame { error: FrameError, begins: Vec<u8>, first: bool },
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    TooLong(#[from] TooLong),
    #[error("idle for {0} ms")]
    Idle(i64),
    #[error("the broker stops")]
    Stopping,
}

/// While a request is being served there is no idle time.
const BUSY: i64 = i64::MAX;

/// Serves `stream` until it ends.
pub async fn serve(shared: &Shared, connection: &Connection, mut stream: Box<dyn Stream>) -> End {
    let clock = &shared.services.clock;
    let active_at = AtomicI64::new(clock.monotonic_ms());
    let stopping = AtomicBool::new(false);
    let end = {
        let mut requests = pin!(requests(shared, connection, &mut *stream, &active_at, &stopping));
        let mut idle = pin!(idle(shared, &active_at));
        let mut shutdown = pin!(shared.shutdown.requested());
        loop {
            tokio::select! {
                biased;
                end = &mut requests => break end,
                end = &mut idle => break end,
                () = &mut shutdown, if !stopping.load(Ordering::Relaxed) => {
                    // A request under way is answered first.
                    stopping.store(true, Ordering::Relaxed);
                    if active_at.load(Ordering::Relaxed) != BUSY {
                        break End::Stopping;
                    }
                }
            }
        }
    };
    // The peer sees a proper end of the stream; when it does not listen any more there is nothing to tell.
    let _ = tokio::io::AsyncWriteExt::shutdown(&mut stream).now_or_never();
    end
}

async fn requests(
    shared: &Shared,
    connection: &Connection,
    stream: &mut dyn Stream,
    active_at: &AtomicI64,
    stopping: &AtomicBool,
) -> End {
    let mut first = true;
    let limit = usize::try_from(shared.services.config.socket_request_max_bytes).unwrap_or(0);
    let mut reader = FrameReader::new(limit, shared.read_buffers.clone());
    let mut writer = ResponseWriter::new(shared.file_buffers.clone(), shared.services.spawner.clone());
    loop {
        match one_request(shared, connection, stream, active_at, &mut reader, &mut writer).await {
            Ok(()) if stopping.load(Ordering::Relaxed) => {
                let clock = &*shared.services.clock;
                return match writer.flush(stream, clock, active_at).await {
                    Ok(()) => End::Stopping,
                    Err(error) => End::Io(error),
                };
            }
            Ok(()) => first = false,
            Err(end) => {
                // Answers to earlier requests are owed all the same.
                let _ = writer.flush(stream, &*shared.services.clock, active_at).now_or_never();
                return match end {
                    End::Frame { error, begins, .. } => End::Frame { error, begins, first },
                    end => end,
                };
            }
        }
    }
}

async fn one_request(
    shared: &Shared,
    connection: &Connection,
    stream: &mut dyn Stream,
    active_at: &AtomicI64,
    reader: &mut FrameReader,
    writer: &mut ResponseWriter,
) -> Result<(), End> {
    let clock = &*shared.services.clock;
    let refused = |error, reader: &FrameReader| End::Frame {
        error,
        begins: reader.held().iter().take(16).copied().collect(),
        first: false,
    };
    let mut share = None;
    let frame = loop {
        if share.is_none()
            && let Some(size) = reader.announced().map_err(|error| refused(error, reader))?
        {
            // The budget is asked before more of the request is read, as in Kafka.
            let mut taking = pin!(RequestBudget::take(shared.budget.as_ref(), size));
            share = Some(match (&mut taking).now_or_never() {
                Some(share) => share,
                None => {
                    writer.flush(stream, clock, active_at).await?;
                    taking.await
                }
            });
        }
        if let Some(frame) = reader.take_frame().map_err(|error| refused(error, reader))? {
            break frame;
        }
        writer.flush(stream, clock, active_at).await?;
        active_at.store(clock.monotonic_ms(), Ordering::Relaxed);
        match reader.fill(stream).await? {
            0 if reader.held().is_empty() => return Err(End::Peer),
            0 => return Err(End::PeerInsideRequest),
            _ => active_at.store(clock.monotonic_ms(), Ordering::Relaxed),
        }
    };
    active_at.store(BUSY, Ordering::Relaxed);
    // On the heap, so that an idle connection does not carry the largest handler's state.
    let mut serving = Box::pin(api::dispatch(&shared.services, connection, frame));
    let reply = match at_once(serving.as_mut()).await {
        Some(reply) => reply,
        None => {
            writer.flush(stream, clock, &AtomicI64::new(0)).await?;
            serving.await
        }
    };
    drop(share);
    reader.release();
    active_at.store(clock.monotonic_ms(), Ordering::Relaxed);
    match reply {
        Reply::Nothing => {}
        Reply::Close(reason) => return Err(End::Refused(reason)),
        Reply::Send(response) => {
            let throttle_ms = response.throttle_ms;
            writer.queue(response)?;
            if throttle_ms > 0 || writer.queued() >= ENOUGH {
                writer.flush(stream, clock, active_at).await?;
            }
            if let Ok(ms @ 1..) = u64::try_from(throttle_ms) {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
        }
    }
    Ok(())
}

/// Polls once: `None` when `future` has to wait, and it is not lost.
async fn at_once<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

/// Completes after `connections.max.idle.ms` without a byte either way. One timer, moved only when it goes off.
async fn idle(shared: &Shared, active_at: &AtomicI64) -> End {
    let limit_ms = shared.services.config.connections_max_idle_ms;
    let Ok(limit @ 1..) = u64::try_from(limit_ms) else { return future::pending().await };
    let mut wait = limit;
    loop {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let active_at = active_at.load(Ordering::Relaxed);
        let idle_ms = if active_at == BUSY { 0 } else { shared.services.clock.monotonic_ms() - active_at };
        if idle_ms >= limit_ms {
            return End::Idle(idle_ms);
        }
        wait = limit.saturating_sub(u64::try_from(idle_ms).unwrap_or(0)).max(1);
    }
}
