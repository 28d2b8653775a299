//! Requests answered by one tokio runtime of one thread.

use std::error::Error;
use std::net::TcpListener;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::frames::{Frames, acknowledge};

pub fn serve(listener: TcpListener) -> Result<(), Box<dyn Error>> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(connection(stream));
        }
    })
}

async fn connection(mut stream: tokio::net::TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut frames = Frames::new(4096);
    let mut out = Vec::new();
    loop {
        let n = stream.read(frames.space()).await?;
        if n == 0 {
            return Ok(());
        }
        frames.filled(n);
        out.clear();
        let done = frames.whole(|frame| acknowledge(&mut out, frame)).len();
        if !out.is_empty() {
            stream.write_all(&out).await?;
        }
        frames.drop_front(done);
    }
}
