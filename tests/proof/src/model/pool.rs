//! Equal values have one number.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Numbers for values, from 1 on; 0 stands for "nothing".
#[derive(Debug)]
pub(super) struct Pool<T> {
    numbers: FxHashMap<Arc<T>, u32>,
    values: Vec<Arc<T>>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), values: Vec::new() }
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// The number of a value, and whether it is new.
    pub(super) fn intern(&mut self, value: T) -> (u32, bool) {
        if let Some(number) = self.numbers.get(&value) {
            return (*number, false);
        }
        let value = Arc::new(value);
        self.values.push(Arc::clone(&value));
        let number = u32::try_from(self.values.len()).expect("fewer than 2^32 values");
        self.numbers.insert(value, number);
        (number, true)
    }

    /// The value of a number.
    pub(super) fn get(&self, number: u32) -> &Arc<T> {
        &self.values[number as usize - 1]
    }
}
