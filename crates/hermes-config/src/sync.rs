//! Locks without poisoning: after a panic in one thread, the others go on with the value as that thread left it. And which
//! of several locks belongs to a key.

pub use std::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash},
    sync::PoisonError,
};

/// A [`std::sync::Mutex`] whose `lock` cannot fail.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`std::sync::RwLock`] whose `read` and `write` cannot fail.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        Self(std::sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which of so many locks or counters a key belongs to. Several keys may share one.
pub fn stripe_index(key: impl Hash, stripes: usize) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
    usize::try_from(hash % stripes as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_key_always_has_the_same_stripe_and_all_stripes_are_used() {
        let indexes: std::collections::BTreeSet<_> =
            (0..1000).map(|key| stripe_index(key, 16)).collect();
        assert!(indexes.into_iter().eq(0..16));
        assert_eq!(stripe_index("a", 64), stripe_index("a", 64));
    }

    #[test]
    fn a_panic_does_not_lock_others_out() {
        let (mutex, rwlock) = (Mutex::new(1), RwLock::new(1));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            *mutex.lock() += 1;
            *rwlock.write() += 1;
            let _held = (mutex.lock(), rwlock.write());
            panic!("while both are held");
        }));
        assert!(panicked.is_err());
        assert_eq!((*mutex.lock(), *rwlock.read()), (2, 2));
        assert_eq!(mutex.into_inner(), 2);
    }
}
