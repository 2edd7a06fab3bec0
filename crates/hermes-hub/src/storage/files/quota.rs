//! The quota of a share or a home. Space is reserved before a write and settled after it, so that concurrent writers do not
//! exceed the quota together.

use hermes_config::sync::{Mutex, MutexGuard};

use crate::{Problem, ProblemCode, storage::files::TreeUsage};

/// The limits of a share; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    pub bytes: Option<u64>,
    pub files: Option<u64>,
}

/// Used and reserved space.
#[derive(Debug, Default)]
pub(crate) struct Quota(Mutex<QuotaAccount>);

#[derive(Debug, Default)]
struct QuotaAccount {
    /// `None` until it was counted.
    used: Option<TreeUsage>,
    reserved: TreeUsage,
    /// Number of counts.
    recounts: u64,
}

impl Quota {
    fn lock(&self) -> MutexGuard<'_, QuotaAccount> {
        self.0.lock()
    }

    pub(crate) fn used(&self) -> Option<TreeUsage> {
        self.lock().used
    }

    pub(crate) fn set_used(&self, used: TreeUsage) {
        let mut account = self.lock();
        account.used = Some(used);
        account.recounts += 1;
    }

    /// Number of counts, for [`Self::release_unless_recounted`].
    pub(crate) fn recounts(&self) -> u64 {
        self.lock().recounts
    }

    /// Frees space, unless a count since then has already seen that it is free.
    pub(crate) fn release_unless_recounted(&self, freed: TreeUsage, counts: u64) {
        let mut account = self.lock();
        if account.recounts == counts {
            account.release(freed);
        }
    }

    /// Reserves space, or fails. A change that needs no more space always succeeds.
    pub(crate) fn reserve(
        &self,
        need: TreeUsage,
        allowance: QuotaLimits,
    ) -> Result<Reservation<'_>, Problem> {
        let mut account = self.lock();
        let used = account.used.unwrap_or_default();
        let taken = TreeUsage {
            bytes: used.bytes.saturating_add(account.reserved.bytes),
            files: used.files.saturating_add(account.reserved.files),
        };
        check_room(taken, need, allowance)?;
        account.reserved.bytes += need.bytes;
        account.reserved.files += need.files;
        drop(account);
        Ok(Reservation {
            quota: self,
            reserved: need,
        })
    }

    pub(crate) fn release(&self, freed: TreeUsage) {
        self.lock().release(freed);
    }
}

impl QuotaAccount {
    fn release(&mut self, freed: TreeUsage) {
        if let Some(used) = &mut self.used {
            used.bytes = used.bytes.saturating_sub(freed.bytes);
            used.files = used.files.saturating_sub(freed.files);
        }
    }
}

/// Refuses what does not fit beside what is taken.
pub(super) fn check_room(
    taken: TreeUsage,
    need: TreeUsage,
    allowance: QuotaLimits,
) -> Result<(), Problem> {
    let bytes = remaining(taken.bytes, allowance.bytes);
    let files = remaining(taken.files, allowance.files);
    if need.bytes > 0 && need.bytes > bytes {
        return Err(quota_exceeded(&format!("{bytes} bytes"), need.bytes));
    }
    if need.files > 0 && need.files > files {
        return Err(quota_exceeded(&format!("{files} files"), need.files));
    }
    Ok(())
}

fn remaining(taken: u64, limit: Option<u64>) -> u64 {
    limit.map_or(u64::MAX, |limit| limit.saturating_sub(taken))
}

fn quota_exceeded(left: &str, need: u64) -> Problem {
    Problem::new(
        ProblemCode::OutOfSpace,
        format!("the quota has room for {left}, and this needs {need}: remove something, or raise the quota"),
    )
    .with_reason("quota")
}

/// Space reserved for one writer, released on drop.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    quota: &'a Quota,
    reserved: TreeUsage,
}

impl Reservation<'_> {
    /// Settles the reservation: what was added, and what is gone.
    pub(crate) fn commit(self, added: TreeUsage, gone: TreeUsage) {
        if let Some(used) = &mut self.quota.lock().used {
            used.bytes = (used.bytes + added.bytes).saturating_sub(gone.bytes);
            used.files = (used.files + added.files).saturating_sub(gone.files);
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut account = self.quota.lock();
        account.reserved.bytes -= self.reserved.bytes;
        account.reserved.files -= self.reserved.files;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(bytes: u64, files: u64) -> TreeUsage {
        TreeUsage { bytes, files }
    }

    fn allowance(bytes: u64, files: u64) -> QuotaLimits {
        QuotaLimits {
            bytes: Some(bytes),
            files: Some(files),
        }
    }

    #[test]
    fn what_is_promised_is_not_promised_again() {
        let quota = Quota::default();
        quota.set_used(used(50, 1));
        let first = quota.reserve(used(40, 1), allowance(100, 10)).unwrap();
        let problem = quota
            .reserve(used(11, 0), allowance(100, 10))
            .expect_err("only 10 are left");
        assert_eq!(
            (problem.code.status(), problem.reason),
            (507, Some("quota"))
        );
        drop(first);
        assert!(quota.reserve(used(50, 0), allowance(100, 10)).is_ok());
    }

    #[test]
    fn settling_counts_what_really_happened() {
        let quota = Quota::default();
        quota.set_used(used(50, 1));
        let room = quota.reserve(used(40, 2), allowance(100, 10)).unwrap();
        room.commit(used(40, 1), used(15, 0));
        assert_eq!(quota.used(), Some(used(75, 2)));
        quota.release(used(75, 3));
        assert_eq!(quota.used(), Some(used(0, 0)));
    }

    #[test]
    fn room_that_a_count_found_free_is_not_given_back_again() {
        let quota = Quota::default();
        quota.set_used(used(50, 5));
        let counts = quota.recounts();
        quota.release_unless_recounted(used(10, 1), counts);
        assert_eq!(quota.used(), Some(used(40, 4)));
        quota.set_used(used(30, 3));
        quota.release_unless_recounted(used(10, 1), counts);
        assert_eq!(quota.used(), Some(used(30, 3)));
    }

    #[test]
    fn a_share_over_its_limit_can_still_shrink() {
        let quota = Quota::default();
        quota.set_used(used(500, 5));
        assert!(quota.reserve(used(0, 0), allowance(100, 1)).is_ok());
        assert!(quota.reserve(used(1, 0), allowance(100, 1)).is_err());
    }
}
