//! One connection: read a request, have it answered, write the answer, in order, until either side ends it.
//!
//! One request at a time is served, as in Kafka; what a client sends ahead waits in the kernel or in the buffer it was
//! read into. Answers to requests that were already here and needed no waiting leave in one write.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use std::{future, io};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::activity::{Activity, Leave};
use super::budget::{RequestBudget, Share};
use super::line;
use super::listener::Stream;
use super::pool::{BufferPool, FileBuffers};
use super::reader::FrameReader;
use super::thread::{Coming, Thread};
use super::writer::{ENOUGH, ResponseWriter, TooLong};
use crate::api::{self, Connection, Reply, Served, Services};
use crate::clock::Clock;
use crate::cluster::suspicion::Ended;
use crate::spawn::Shutdown;
use crate::wire::api_versions::ApiKey;
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
    #[error("there are more than max.connections, and it was silent longest")]
    Displaced,
    #[error("the broker stops")]
    Stopping,
    /// Not an end: the next request is another thread's to serve.
    #[error("moves to another thread")]
    Moves(Thread),
}

impl End {
    /// Who ended it.
    pub fn how(&self) -> Ended {
        match self {
            End::Peer | End::PeerInsideRequest => Ended::Fin,
            End::Io(error) => Ended::by(error),
            End::Idle(_) => Ended::Idle,
            End::Frame { .. } | End::Refused(_) | End::TooLong(_) | End::Displaced | End::Stopping | End::Moves(_) => {
                Ended::ByUs
            }
        }
    }
}

impl From<Leave> for End {
    fn from(leave: Leave) -> End {
        match leave {
            Leave::Displaced => End::Displaced,
            Leave::Idle(ms) => End::Idle(ms),
        }
    }
}

/// What goes with a connection from thread to thread.
pub struct Held {
    reader: FrameReader,
    /// No request was served yet.
    first: bool,
    /// Of the request that is being read.
    share: Option<Share>,
}

impl Held {
    pub fn new(shared: &Shared) -> Held {
        let limit = usize::try_from(shared.services.config.socket_request_max_bytes).unwrap_or(0);
        Held { reader: FrameReader::new(limit, shared.read_buffers.clone()), first: true, share: None }
    }
}

/// How a connection stands, between its requests and what watches over it.
struct Standing<'a> {
    at: Thread,
    activity: &'a Activity,
    /// A request is being served.
    serving: AtomicBool,
    /// The broker stops: no request is begun any more.
    stopping: AtomicBool,
    /// The next request may take the thread's time: nothing is known of the connection yet, or it was told much just now.
    may_cost: AtomicBool,
}

/// Serves `stream` on the thread `at` until it ends or moves.
pub async fn serve(
    shared: &Shared,
    connection: &Connection,
    activity: &Activity,
    stream: &mut Box<dyn Stream>,
    held: &mut Held,
    at: Thread,
) -> End {
    let [serving, stopping] = Default::default();
    let standing = Standing { at, activity, serving, stopping, may_cost: AtomicBool::new(true) };
    let end = {
        // A set of one is polled when what is in it was woken, and not with each request. Boxed: the set has room for one
        // more than it holds.
        let mut watch = FuturesUnordered::from_iter([Box::pin(watch(shared, &standing))]);
        tokio::select! {
            biased;
            end = requests(shared, connection, &mut **stream, held, &standing) => end,
            Some(end) = watch.next() => end,
        }
    };
    if !matches!(end, End::Moves(_)) {
        // The peer sees a proper end of the stream; when it does not listen any more there is nothing to tell.
        let _ = tokio::io::AsyncWriteExt::shutdown(stream).now_or_never();
    }
    end
}

async fn requests(
    shared: &Shared,
    connection: &Connection,
    stream: &mut dyn Stream,
    held: &mut Held,
    standing: &Standing<'_>,
) -> End {
    let active_at = &standing.activity.active_at;
    let mut writer = ResponseWriter::new(shared.file_buffers.clone(), shared.services.spawner.clone());
    loop {
        match one_request(shared, connection, stream, standing, held, &mut writer).await {
            Ok(()) if standing.stopping.load(Ordering::Relaxed) => {
                let clock = &*shared.services.clock;
                return match writer.flush(stream, clock, active_at).await {
                    Ok(()) => End::Stopping,
                    Err(error) => End::Io(error),
                };
            }
            Ok(()) => held.first = false,
            Err(end) => {
                // Answers to earlier requests are owed all the same.
                let _ = writer.flush(stream, &*shared.services.clock, active_at).now_or_never();
                return match end {
                    End::Frame { error, begins, .. } => End::Frame { error, begins, first: held.first },
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
    standing: &Standing<'_>,
    held: &mut Held,
    writer: &mut ResponseWriter,
) -> Result<(), End> {
    let Held { reader, first, share } = held;
    let active_at = &standing.activity.active_at;
    let clock = &*shared.services.clock;
    let refused = |error, reader: &FrameReader| End::Frame {
        error,
        begins: reader.held().iter().take(16).copied().collect(),
        first: false,
    };
    // Most connections leave this thread with what tells that they do.
    let undecided = *first && standing.at == Thread::Control && !connection.of_controller;
    let size = loop {
        let announced = reader.announced();
        if let Some(key) = reader.api_key()
            && let size = announced.as_ref().ok().copied().flatten().unwrap_or_default()
            && let coming = (Coming { key: ApiKey::from_code(key), size, whole: reader.holds(size) })
            && let to = standing.at.for_request(coming, connection, &shared.services.cluster)
            && to != standing.at
        {
            writer.flush(stream, clock, active_at).await?;
            return Err(End::Moves(to));
        }
        let announced = announced.map_err(|error| refused(error, reader))?;
        if share.is_none()
            && let Some(size) = announced
        {
            // The budget is asked before more of the request is read, as in Kafka.
            let mut taking = pin!(RequestBudget::take(shared.budget.as_ref(), size));
            *share = Some(match (&mut taking).now_or_never() {
                Some(share) => share,
                None => {
                    writer.flush(stream, clock, active_at).await?;
                    writer.time_passes();
                    taking.await
                }
            });
        }
        if let Some(size) = announced.filter(|size| reader.holds(*size)) {
            // Where a connection's first fetch is served too, which may be a follower's.
            if matches!(standing.at, Thread::Data | Thread::Replicas)
                && api::is_of_large_session(&shared.services, connection, reader.whole_frame(size))
            {
                writer.flush(stream, clock, active_at).await?;
                return Err(End::Moves(Thread::Lengthy));
            }
            break size;
        }
        writer.flush(stream, clock, active_at).await?;
        let filled = match undecided && reader.api_key().is_none() {
            true => reader.fill_head(stream).await?,
            false => reader.fill(stream).await?,
        };
        match filled {
            0 if reader.held().is_empty() => return Err(End::Peer),
            0 => return Err(End::PeerInsideRequest),
            _ => active_at.store(clock.monotonic_ms(), Ordering::Relaxed),
        }
    };
    if reader.api_key().and_then(ApiKey::from_code).is_some_and(ApiKey::is_of_controller) {
        still_there(stream).await?;
    }
    // A first fetch comes where followers are served, who do not stand.
    let in_line = match standing.at {
        Thread::Data => true,
        Thread::Replicas => connection.of_follower.get() != Some(&true),
        Thread::Control | Thread::Lengthy => false,
    };
    if in_line && standing.may_cost.load(Ordering::Relaxed) {
        line::stand().await;
    }
    standing.serving.store(true, Ordering::Relaxed);
    let served = api::dispatch(&shared.services, connection, reader.frame(size), share.take());
    reader.release();
    // An answer is queued before anything is waited for: a connection that waits has no room for one.
    let (mut throttle_ms, serving) = match served {
        Served::AtOnce(reply) => (queue(reply, writer)?, None),
        Served::Later(serving) => (0, Some(serving)),
    };
    if let Some(mut serving) = serving {
        let reply = match at_once(serving.as_mut()).await {
            Some(reply) => reply,
            None => {
                writer.flush(stream, clock, active_at).await?;
                writer.time_passes();
                unless_gone(serving.as_mut(), stream).await?
            }
        };
        throttle_ms = queue(reply, writer)?;
    }
    standing.serving.store(false, Ordering::Relaxed);
    standing.may_cost.store(writer.queued() >= ENOUGH, Ordering::Relaxed);
    give(throttle_ms, stream, clock, active_at, writer).await
}

/// The answer, unless the peer closes before it is there: then what the request waits on forgets it. One that sent more
/// before it closed is noticed when its turn comes.
async fn unless_gone(
    mut serving: Pin<&mut (impl Future<Output = Reply> + ?Sized)>,
    stream: &mut dyn Stream,
) -> Result<Reply, End> {
    let gone = async {
        match future::poll_fn(|cx| stream.poll_gone(cx)).await {
            Some(gone) => gone.map_or_else(End::Io, |()| End::Peer),
            None => future::pending().await,
        }
    };
    tokio::select! {
        biased;
        reply = &mut serving => Ok(reply),
        end = gone => Err(end),
    }
}

/// An error when the connection has ended already. Not all of what a controller says carries an epoch: what it says over its
/// next connection must not be followed by what was left on this one.
async fn still_there(stream: &mut dyn Stream) -> Result<(), End> {
    future::poll_fn(|cx| {
        std::task::Poll::Ready(match stream.poll_gone(cx) {
            std::task::Poll::Ready(Some(gone)) => Err(gone.map_or_else(End::Io, |()| End::Peer)),
            _ => Ok(()),
        })
    })
    .await
}

/// Queues an answer; milliseconds its client is not read from then.
fn queue(reply: Reply, writer: &mut ResponseWriter) -> Result<i32, End> {
    match reply {
        Reply::Nothing { throttle_ms } => Ok(throttle_ms),
        Reply::Close(reason) => Err(End::Refused(reason)),
        Reply::Send(response) => {
            let throttle_ms = response.throttle_ms;
            writer.queue(response)?;
            Ok(throttle_ms)
        }
    }
}

/// Writes what is queued when it should not wait for others. A throttled client has its answer at once and is not read from
/// until its time is over (KIP-219). That it is silent meanwhile is not its doing: its idle time begins then.
async fn give(
    throttle_ms: i32,
    stream: &mut dyn Stream,
    clock: &dyn Clock,
    active_at: &AtomicI64,
    writer: &mut ResponseWriter,
) -> Result<(), End> {
    if throttle_ms > 0 || writer.queued() >= ENOUGH {
        writer.flush(stream, clock, active_at).await?;
    }
    if let Ok(ms @ 1..) = u64::try_from(throttle_ms) {
        active_at.store(clock.monotonic_ms() + i64::from(throttle_ms), Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(ms)).await;
        writer.time_passes();
    }
    Ok(())
}

/// Polls once: `None` when `future` has to wait, and it is not lost.
async fn at_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Option<F::Output> {
    future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

/// Completes when the connection is to end though its peer goes on: it is idle or makes room for others, or the broker
/// stops and owes no answer.
async fn watch(shared: &Shared, standing: &Standing<'_>) -> End {
    tokio::select! {
        biased;
        leave = standing.activity.told() => return leave.into(),
        () = shared.shutdown.requested() => {}
    }
    standing.stopping.store(true, Ordering::Relaxed);
    // A request under way is answered first.
    match standing.serving.load(Ordering::Relaxed) {
        true => standing.activity.told().await.into(),
        false => End::Stopping,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::Instant;

    use super::*;
    use crate::api::Response;
    use crate::clock::ManualClock;
    use crate::sim::brokers::Inline;

    #[tokio::test(start_paused = true)]
    async fn a_throttled_client_has_its_answer_at_once_and_is_not_read_from() {
        let (mut client, mut server) = duplex(1_000);
        let mut writer = ResponseWriter::new(Arc::default(), Arc::new(Inline));
        let (clock, active_at) = (ManualClock::at(0), AtomicI64::new(0));
        let begun = Instant::now();
        let throttle_ms = queue(Reply::Send(Response::of("abc"[..].into(), 500)), &mut writer).expect("no end");
        let mut giving = Box::pin(give(throttle_ms, &mut server, &clock, &active_at, &mut writer));
        assert!((&mut giving).now_or_never().is_none());
        let mut answer = [0; 7];
        client.read_exact(&mut answer).await.expect("written");
        assert_eq!((&answer, begun.elapsed().as_millis()), (b"\0\0\0\x03abc", 0));
        assert_eq!(active_at.load(Ordering::Relaxed), 500, "it is not idle before it may speak");
        giving.await.expect("no end");
        assert_eq!(begun.elapsed().as_millis(), 500);
        // One that is owed no answer is not read from either; what others are owed leaves first.
        assert_eq!(queue(Reply::Send(Response::of("def"[..].into(), 0)), &mut writer).expect("no end"), 0);
        give(0, &mut server, &clock, &active_at, &mut writer).await.expect("no end");
        let throttle_ms = queue(Reply::Nothing { throttle_ms: 300 }, &mut writer).expect("no end");
        let mut giving = Box::pin(give(throttle_ms, &mut server, &clock, &active_at, &mut writer));
        assert!((&mut giving).now_or_never().is_none());
        client.read_exact(&mut answer).await.expect("written");
        assert_eq!(&answer, b"\0\0\0\x03def");
        giving.await.expect("no end");
        assert_eq!(begun.elapsed().as_millis(), 800);
        // To a request that came before all that.
        clock.advance(2_000);
        queue(Reply::Send(Response::of("ghi"[..].into(), 0)), &mut writer).expect("no end");
        writer.flush(&mut server, &clock, &active_at).await.expect("no end");
        assert_eq!(active_at.load(Ordering::Relaxed), 2_000, "an answer moves bytes when it is written");
    }

    /// Both ends of a real connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = listener.local_addr().expect("an address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (client.expect("connected"), accepted.expect("accepted").0)
    }

    #[tokio::test]
    async fn who_hung_up_is_not_served_on() {
        let (client, mut server) = pair().await;
        let parked = Arc::new(());
        let waits = Arc::clone(&parked);
        let mut serving = Box::pin(async move {
            let _parked = waits;
            future::pending().await
        });
        assert!(unless_gone(serving.as_mut(), &mut server).now_or_never().is_none(), "still there");
        drop(client);
        let end = unless_gone(serving.as_mut(), &mut server).await;
        assert!(matches!(end, Err(End::Peer)), "{end:?}");
        drop(serving);
        assert_eq!(Arc::strong_count(&parked), 1, "what it waited on has forgotten it");
    }

    /// As a broker that stood still finds them: all that came, and the end.
    #[tokio::test]
    async fn a_controller_that_hung_up_is_not_obeyed() {
        let (mut client, mut server) = pair().await;
        let mut request = [0; 5];
        client.write_all(b"first").await.expect("sent");
        server.read_exact(&mut request).await.expect("a request");
        still_there(&mut server).await.expect("it waits for the answer");
        client.write_all(b"again").await.expect("sent");
        drop(client);
        server.read_exact(&mut request).await.expect("a request");
        server.readable().await.expect("an end");
        let end = still_there(&mut server).await;
        assert!(matches!(end, Err(End::Peer)), "{end:?}");
    }

    #[tokio::test]
    async fn who_sent_more_meanwhile_is_served_and_read_later() {
        let (mut client, mut server) = pair().await;
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let mut serving = Box::pin(async {
            let _ = answered.await;
            Reply::Nothing { throttle_ms: 0 }
        });
        client.write_all(b"more").await.expect("sent");
        server.readable().await.expect("open");
        assert!(unless_gone(serving.as_mut(), &mut server).now_or_never().is_none());
        answer.send(()).expect("it waits");
        assert!(matches!(unless_gone(serving.as_mut(), &mut server).await, Ok(Reply::Nothing { .. })));
        let mut more = [0; 4];
        server.read_exact(&mut more).await.expect("all of it");
        assert_eq!(&more, b"more");
    }
}
