//! Tells the service manager how the gateway is.

use std::time::{Duration, SystemTime};

use hermes_gateway::instance::Instance;

use crate::service_manager::ServiceManagerSocket;

/// A platform that is deaf for so long does not come back by itself: the gateway is to be started again.
const MAX_DEAFNESS: Duration = Duration::from_mins(5);

/// The service manager, and when it wants to hear from the gateway.
pub(super) struct ServiceNotifier {
    manager: ServiceManagerSocket,
    /// How long the service manager waits for a sign of life.
    watchdog: Option<Duration>,
}

impl ServiceNotifier {
    pub(super) fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        // The variables are inherited; they may be meant for the parent.
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_ours);
        Self {
            manager: ServiceManagerSocket::from_environment(),
            watchdog: watchdog.map(Duration::from_micros),
        }
    }

    pub(super) fn ready(&self) {
        self.manager.notify_ready();
    }

    pub(super) fn stopping(&self) {
        self.manager.notify_stopping();
    }

    /// Says that the gateway lives, twice in the time the manager waits, for as long as no platform is deaf. Until it is
    /// cancelled.
    pub(super) async fn feed_watchdog(&self, instance: &Instance) {
        self.feed_unless_deaf(instance, MAX_DEAFNESS).await;
    }

    async fn feed_unless_deaf(&self, instance: &Instance, max_deafness: Duration) {
        let Some(limit) = self.watchdog else {
            return std::future::pending().await;
        };
        let mut ticks = tokio::time::interval(limit / 2);
        loop {
            ticks.tick().await;
            match instance.longest_deafness(SystemTime::now()) {
                Some((label, deafness)) if deafness >= max_deafness => {
                    tracing::error!(platform = %label, seconds = deafness.as_secs(),
                        "platform receives no updates; the service manager restarts the gateway");
                }
                _ => self.manager.notify_alive(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use hermes_config::Home;
    use hermes_gateway::instance::{PlatformReport, PlatformStatus};

    use super::*;

    #[tokio::test]
    async fn the_watchdog_is_not_fed_while_a_platform_has_been_deaf_for_too_long() {
        let directory = tempfile::tempdir().unwrap();
        let address = directory.path().join("notify");
        let manager = UnixDatagram::bind(&address).unwrap();
        manager.set_nonblocking(true).unwrap();
        let notifier = ServiceNotifier {
            manager: ServiceManagerSocket::at(address.to_str().unwrap()).unwrap(),
            watchdog: Some(Duration::from_millis(10)),
        };
        let instance = Instance::acquire(&Home::at(directory.path().join("home"))).unwrap();
        let is_fed = async |status, max_deafness| {
            instance.set_platform_health("telegram", &PlatformReport::new(status));
            let feeding = notifier.feed_unless_deaf(&instance, max_deafness);
            // The first sign of life is due at once.
            let _ = tokio::time::timeout(Duration::from_millis(100), feeding).await;
            let mut is_fed = false;
            let mut buffer = [0; 32];
            while let Ok(length) = manager.recv(&mut buffer) {
                assert_eq!(&buffer[..length], b"WATCHDOG=1");
                is_fed = true;
            }
            is_fed
        };
        let (none, long) = (Duration::ZERO, MAX_DEAFNESS);
        assert!(is_fed(PlatformStatus::Connected, none).await);
        assert!(!is_fed(PlatformStatus::Deaf, none).await);
        assert!(is_fed(PlatformStatus::Deaf, long).await);
        assert!(is_fed(PlatformStatus::Connected, none).await);
    }
}
