// SPDX-License-Identifier: Apache-2.0
//! Fewer calls of the kernel for much data: what comes without a pause is read in large pieces.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

/// As much as is read at once: four records of TLS.
const PIECE: usize = 64 * 1024;

/// A connection below TLS, which asks for 4 KiB at a time: four or five calls for each of its records.
///
/// A read that was filled to its end says that more is there: from then on a whole piece is asked for, until there is
/// nothing. Then the memory goes too, for most connections are silent most of the time.
#[derive(Debug)]
pub(super) struct ReadAhead<T> {
    inner: T,
    piece: BytesMut,
    more: bool,
}

impl<T> ReadAhead<T> {
    /// Reads from `inner`.
    pub(super) fn new(inner: T) -> Self {
        Self { inner, piece: BytesMut::new(), more: false }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ReadAhead<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.piece.is_empty() && this.more && buf.remaining() < PIECE {
            // The same memory as before, once all of it was taken.
            this.piece.reserve(PIECE);
            let read = poll_read_buf(Pin::new(&mut this.inner), cx, &mut this.piece);
            if !matches!(read, Poll::Ready(Ok(1..))) {
                this.piece = BytesMut::new();
                this.more = false;
                return read.map_ok(drop);
            }
        }
        if this.piece.is_empty() {
            let asked = buf.remaining();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            this.more = asked > 0 && buf.remaining() == 0;
        } else {
            let count = this.piece.len().min(buf.remaining());
            buf.put_slice(&this.piece[..count]);
            this.piece.advance(count);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ReadAhead<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<T: Connection> Connection for ReadAhead<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Gives at most so many bytes each time, and notes how many it was asked for.
    struct Source {
        left: Vec<u8>,
        pieces: Vec<usize>,
        asked: Vec<usize>,
    }

    impl AsyncRead for Source {
        fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            self.asked.push(buf.remaining());
            match self.pieces.pop() {
                // Nothing yet; the next time there is.
                Some(0) => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                piece => {
                    let count = piece.unwrap_or(usize::MAX).min(self.left.len()).min(buf.remaining());
                    let rest = self.left.split_off(count);
                    buf.put_slice(&self.left);
                    self.left = rest;
                    Poll::Ready(Ok(()))
                }
            }
        }
    }

    #[tokio::test]
    async fn much_is_read_in_large_pieces_and_silence_keeps_no_memory() {
        let source = Source { left: vec![1; 100_000], pieces: vec![0, 65_536, 4_096, 5], asked: Vec::new() };
        let mut ahead = ReadAhead::new(source);
        let mut buffer = [0; 4_096];
        assert_eq!(ahead.read(&mut buffer).await.unwrap(), 5);
        assert_eq!(ahead.read(&mut buffer).await.unwrap(), 4_096);
        for _ in 0..16 {
            assert_eq!(ahead.read(&mut buffer).await.unwrap(), 4_096);
        }
        assert_eq!(ahead.inner.asked[..2], [4_096, 4_096]);
        assert!(ahead.inner.asked[2] >= PIECE && ahead.inner.asked.len() == 3, "{:?}", ahead.inner.asked);
        assert_eq!(ahead.read(&mut buffer).await.unwrap(), 4_096, "after a pause");
        assert_eq!((ahead.inner.asked[4], ahead.piece.capacity()), (4_096, 0));
    }

    #[tokio::test]
    async fn what_is_written_goes_through() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut ahead = ReadAhead::new(near);
        ahead.write_all(b"hello").await.unwrap();
        ahead.shutdown().await.unwrap();
        let mut came = String::new();
        far.read_to_string(&mut came).await.unwrap();
        assert_eq!(came, "hello");
    }

    proptest! {
        #[test]
        fn the_bytes_are_those_of_the_connection(
            length in 0..300_000_usize,
            pieces in prop::collection::vec(prop_oneof![Just(0_usize), 1..10_usize, 4_000..70_000_usize], 0..60),
            buffers in prop::collection::vec(1..20_000_usize, 1..5),
        ) {
            let bytes: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let mut ahead = ReadAhead::new(Source { left: bytes.clone(), pieces, asked: Vec::new() });
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let came = runtime.block_on(async {
                let mut came: Vec<u8> = Vec::new();
                for size in buffers.iter().cycle() {
                    let mut buffer = vec![0; *size];
                    match ahead.read(&mut buffer).await.unwrap() {
                        0 => break,
                        count => came.extend(&buffer[..count]),
                    }
                }
                came
            });
            prop_assert_eq!(came, bytes);
        }
    }
}
