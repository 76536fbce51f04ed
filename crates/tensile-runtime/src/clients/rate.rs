// SPDX-License-Identifier: Apache-2.0
//! A token bucket in front of a client, as client-go's QPS and burst: no timer, no allocation while tokens are there.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tower::{Layer, Service};

/// So many at once, so many a second in the long run. Pure: time is an argument.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenBucket {
    per_second: f64,
    size: f64,
    tokens: f64,
    counted_at: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens (at least one) that gets `qps` (above 0) a second.
    pub fn new(qps: f32, burst: u32, now: Instant) -> Self {
        let size = f64::from(burst.max(1));
        Self { per_second: f64::from(qps), size, tokens: size, counted_at: now }
    }

    /// Takes a token, or says how long to wait for one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.counted_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(self.size);
        self.counted_at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            Ok(())
        } else {
            Err(Duration::from_secs_f64((1.0 - self.tokens) / self.per_second))
        }
    }

    /// Whether nothing is missing: it is as good as a new one.
    pub fn is_full(&self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.counted_at).as_secs_f64();
        self.tokens + passed * self.per_second >= self.size
    }
}

/// Puts a [`RateLimit`] around a service.
#[derive(Debug, Clone)]
pub struct RateLimitLayer {
    qps: f32,
    burst: u32,
}

impl RateLimitLayer {
    /// The layer for `qps` requests a second, `burst` at once; none for `qps` 0 or below.
    pub fn new(qps: f32, burst: u32) -> Option<Self> {
        (qps > 0.0).then_some(Self { qps, burst })
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit { inner, bucket: TokenBucket::new(self.qps, self.burst, Instant::now()), waiting: None, paid: false }
    }
}

/// A service that is ready only when its bucket has a token; requests wait in the order they came.
///
/// Not `Clone`: every clone would have a bucket of its own. kube's client keeps one instance behind a queue.
#[derive(Debug)]
pub struct RateLimit<S> {
    inner: S,
    bucket: TokenBucket,
    waiting: Option<Pin<Box<Sleep>>>,
    paid: bool,
}

impl<S: Service<R>, R> Service<R> for RateLimit<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        while !self.paid {
            if let Some(sleep) = &mut self.waiting {
                ready!(sleep.as_mut().poll(cx));
                self.waiting = None;
            }
            match self.bucket.take(Instant::now()) {
                Ok(()) => self.paid = true,
                Err(wait) => self.waiting = Some(Box::pin(tokio::time::sleep(wait))),
            }
        }
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.paid = false;
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tower::{ServiceExt, service_fn};

    #[test]
    fn a_full_bucket_gives_its_burst_at_once_and_then_one_at_a_time() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10.0, 3, start);
        for _ in 0..3 {
            assert_eq!(bucket.take(start), Ok(()));
        }
        assert_eq!(bucket.take(start), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(start + Duration::from_millis(100)), Ok(()));
        assert!(bucket.take(start + Duration::from_millis(150)).is_err());
    }

    #[test]
    fn a_pause_never_saves_more_than_the_burst() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(1000.0, 2, start);
        let later = start + Duration::from_secs(3600);
        assert_eq!((bucket.take(later), bucket.take(later)), (Ok(()), Ok(())));
        assert!(bucket.take(later).is_err());
    }

    #[test]
    fn a_bucket_is_full_again_when_all_that_was_taken_has_come_back() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(10.0, 2, start);
        assert!(bucket.is_full(start));
        assert_eq!((bucket.take(start), bucket.take(start)), (Ok(()), Ok(())));
        assert!(
            !bucket.is_full(start + Duration::from_millis(190)) && bucket.is_full(start + Duration::from_millis(200))
        );
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_gives_nothing() {
        let start = Instant::now() + Duration::from_secs(10);
        let mut bucket = TokenBucket::new(1000.0, 1, start);
        assert_eq!(bucket.take(start), Ok(()));
        assert!(bucket.take(start.checked_sub(Duration::from_secs(5)).unwrap()).is_err());
    }

    #[test]
    fn zero_requests_a_second_means_no_limit() {
        assert!(RateLimitLayer::new(0.0, 5).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_beyond_the_burst_wait_their_turn() {
        let mut service = RateLimitLayer::new(10.0, 2).unwrap().layer(service_fn(|()| async { Ok::<_, ()>(()) }));
        let start = Instant::now();
        for _ in 0..5 {
            service.ready().await.unwrap().call(()).await.unwrap();
        }
        let waited = start.elapsed();
        assert!(waited >= Duration::from_millis(300) && waited < Duration::from_millis(310), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn asking_twice_whether_it_is_ready_costs_one_token() {
        let mut service = RateLimitLayer::new(1.0, 2).unwrap().layer(service_fn(|()| async { Ok::<_, ()>(()) }));
        let start = Instant::now();
        service.ready().await.unwrap();
        service.ready().await.unwrap().call(()).await.unwrap();
        service.ready().await.unwrap().call(()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
