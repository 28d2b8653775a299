//! The way to an ensemble: one client after the other, tried for as long as it takes.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client as zk;

use super::connect_string::ConnectString;
use super::jaas::Login;

/// Between rounds through all servers. The crate's own pauses double, to 0.7 of the session timeout at last: a server that
/// starts again after them all would end the session before it is asked.
const RETRY: Duration = Duration::from_millis(200);
/// Between two lines of the log about the same trouble.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// How long a server may take to accept a connection before it is called silent.
const SILENT: Duration = Duration::from_secs(1);

pub(super) struct Way {
    pub to: ConnectString,
    pub session_timeout_ms: u32,
    pub login: Option<Login>,
}

impl Way {
    /// A client with a session of its own, at the root. Ends by a server's word alone: a login that is refused.
    pub async fn begin(&self) -> Result<zk::Client, zk::Error> {
        self.until_answered(&self.to.hosts, None).await
    }

    /// A client with `session`, below the chroot. Ends by a server's word alone: [`zk::Error::SessionExpired`].
    pub async fn resume(&self, session: &zk::SessionInfo) -> Result<zk::Client, zk::Error> {
        self.until_answered(&self.to.with_chroot(), Some(session)).await
    }

    async fn until_answered(&self, at: &str, session: Option<&zk::SessionInfo>) -> Result<zk::Client, zk::Error> {
        let mut quiet_until = Instant::now();
        loop {
            let connector = zk::Client::connector()
                .with_session_timeout(Duration::from_millis(self.session_timeout_ms.into()))
                .with_fail_eagerly();
            let connector = match session {
                Some(session) => connector.with_session(session.clone()),
                None => connector,
            };
            let connector = match self.login.clone() {
                Some(Login { user, password }) => connector.with_sasl(zk::SaslOptions::digest_md5(user, password)),
                None => connector,
            };
            match connector.connect(at).await {
                Err(error) if !is_answer(&error) => {
                    if Instant::now() >= quiet_until {
                        tracing::warn!("ZooKeeper is not reached and tried again: {}", self.complaints().await);
                        quiet_until = Instant::now() + SAY_EVERY;
                    }
                    sleep(RETRY).await;
                }
                answered => return answered,
            }
        }
    }

    /// What is wrong with each server, as far as it can be seen from here.
    pub async fn complaints(&self) -> String {
        let complaint = async |host: &str| match timeout(SILENT, TcpStream::connect(host)).await {
            Ok(Ok(_)) => format!("{host} accepts connections and does not serve"),
            Ok(Err(error)) => format!("{host}: {error}"),
            Err(_) => format!("{host} does not answer"),
        };
        join_all(self.to.hosts.split(',').map(complaint)).await.join("; ")
    }
}

/// Whether a server said it, or waiting cannot mend it.
fn is_answer(error: &zk::Error) -> bool {
    matches!(error, zk::Error::SessionExpired | zk::Error::AuthFailed | zk::Error::BadArguments(_))
}
