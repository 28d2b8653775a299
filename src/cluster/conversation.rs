//! Requests to another broker and their answers, over one [`Link`].

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use kafka_protocol::protocol::Request;

use super::peer::Link;
use super::suspicion::Ended;
use crate::wire::api_versions::ApiKey;
use crate::wire::guard;
use crate::wire::header::{put_request_header, take_response_header};

/// One connection, and who speaks on it. Of no use any more after an error, or when a call was given up.
pub struct Conversation {
    link: Box<dyn Link>,
    client_id: Arc<str>,
    /// Of the next request.
    correlation_id: i32,
}

impl Conversation {
    pub fn new(link: Box<dyn Link>, client_id: Arc<str>) -> Conversation {
        Conversation { link, client_id, correlation_id: 0 }
    }

    /// Asks in `version`. Fails with [`io::ErrorKind::InvalidData`] for an answer that cannot be one, with
    /// [`io::ErrorKind::InvalidInput`] for a request that this version cannot say.
    pub async fn ask<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        let Some(api) = ApiKey::from_code(R::KEY) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("api key {} is unknown", R::KEY)));
        };
        let unspeakable = |error| {
            let text = format!("{} v{version} cannot be written: {error}", api.name());
            io::Error::new(io::ErrorKind::InvalidInput, text)
        };
        let mut frame = self.begin(api, version, request.compute_size(version).map_err(unspeakable)?);
        request.encode(&mut frame, version).map_err(unspeakable)?;
        let body = self.finish(api, version, frame).await?;
        guard::decode(body.freeze(), version).map_err(|error| garbage(api, error))
    }

    /// As [`Conversation::ask`], with a body of up to `size` bytes that the caller writes; returns that of the answer.
    pub async fn ask_bytes(
        &mut self,
        api: ApiKey,
        version: i16,
        size: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> io::Result<BytesMut> {
        let mut frame = self.begin(api, version, size);
        write(&mut frame);
        self.finish(api, version, frame).await
    }

    /// Returns when the connection ends while nothing is asked. It is of no use any more then.
    pub async fn ended(&mut self) -> Ended {
        poll_fn(|cx| self.link.poll_ended(cx)).await
    }

    fn begin(&self, api: ApiKey, version: i16, size: usize) -> BytesMut {
        let mut frame = BytesMut::with_capacity(size + self.client_id.len() + 16);
        put_request_header(&mut frame, api, version, self.correlation_id, &self.client_id);
        frame
    }

    async fn finish(&mut self, api: ApiKey, version: i16, frame: BytesMut) -> io::Result<BytesMut> {
        let asked = self.correlation_id;
        self.correlation_id = asked.wrapping_add(1);
        let mut answer = self.link.ask(frame.freeze()).await?;
        let answered = take_response_header(&mut answer, api, version).map_err(|error| garbage(api, error))?;
        if answered != asked {
            return Err(garbage(api, format_args!("it answers request {answered}, asked was {asked}")));
        }
        Ok(answer)
    }
}

fn garbage(api: ApiKey, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not an answer to {}: {why}", api.name()))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use async_trait::async_trait;
    use bytes::Bytes;
    use kafka_protocol::messages::{ControlledShutdownRequest, ControlledShutdownResponse};
    use parking_lot::Mutex;

    use super::*;

    /// Hands out prepared answers.
    struct Script {
        answers: VecDeque<&'static [u8]>,
        asked: Arc<Mutex<Vec<Bytes>>>,
    }

    #[async_trait]
    impl Link for Script {
        async fn ask(&mut self, request: Bytes) -> io::Result<BytesMut> {
            self.asked.lock().push(request);
            self.answers.pop_front().map(BytesMut::from).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn conversation(answers: &[&'static [u8]]) -> (Conversation, Arc<Mutex<Vec<Bytes>>>) {
        let asked = Arc::<Mutex<Vec<Bytes>>>::default();
        let link = Script { answers: answers.iter().copied().collect(), asked: asked.clone() };
        (Conversation::new(Box::new(link), "2".into()), asked)
    }

    #[tokio::test]
    async fn asks_and_understands_the_answer() {
        let (mut talk, asked) = conversation(&[&[0, 0, 0, 0, 0, 0, 11, 1, 0], &[0, 0, 0, 1, 0, 0, 0, 1, 0]]);
        let request = ControlledShutdownRequest::default().with_broker_id(2.into()).with_broker_epoch(9);
        let answer: ControlledShutdownResponse = talk.ask(3, &request).await.expect("an answer");
        assert_eq!(answer.error_code, 11);
        assert_eq!(talk.ask(3, &request).await.expect("an answer").error_code, 0);
        let asked = asked.lock();
        let expected = [0, 7, 0, 3, 0, 0, 0, 0, 0, 1, b'2', 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9, 0];
        assert_eq!(asked[0][..], expected);
        assert_eq!(asked[1][4..8], [0, 0, 0, 1], "the next correlation id");
    }

    #[tokio::test]
    async fn what_is_not_an_answer_is_an_error() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "the frame ends inside its header"),
            (&[0, 0, 0], "the frame ends inside its header"),
            (&[0, 0, 0, 5, 0, 0, 0, 1, 0], "it answers request 5, asked was 0"),
            (&[0, 0, 0, 0, 0, 0], "the body of 1 bytes is not a valid one of version 3"),
            (&[0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 7], "not an answer to ControlledShutdown"),
            (b"HTTP/1.1 400 Bad Request", "not an answer to ControlledShutdown"),
        ];
        for (answer, why) in cases {
            let (mut talk, _) = conversation(&[answer]);
            let error = talk.ask(3, &ControlledShutdownRequest::default()).await.expect_err("no answer");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(why), "{error}");
        }
        let (mut talk, _) = conversation(&[]);
        let error = talk.ask(3, &ControlledShutdownRequest::default()).await.expect_err("closed");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn what_a_version_cannot_say_is_not_sent() {
        let (mut talk, asked) = conversation(&[]);
        let error = talk.ask(99, &ControlledShutdownRequest::default()).await.expect_err("no such version");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(asked.lock().is_empty());
    }

    #[tokio::test]
    async fn a_body_of_the_callers_own_is_framed_alike() {
        let (mut talk, asked) = conversation(&[&[0, 0, 0, 0, 1, 2, 3]]);
        let answer = talk.ask_bytes(ApiKey::Fetch, 11, 2, |out| out.extend_from_slice(b"ab")).await.expect("an answer");
        assert_eq!(answer[..], [1, 2, 3]);
        assert_eq!(asked.lock()[0][..], [0, 1, 0, 11, 0, 0, 0, 0, 0, 1, b'2', b'a', b'b']);
    }
}
