//! Some routes of a set: a bit for each, or a list of the few.

use super::set::ROUTES_MAX;

/// A longer list takes more memory than the bits.
const FEW_MAX: usize = 32;

/// A bit for each route that a set may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RouteBits([u64; ROUTES_MAX.div_ceil(64)]);

impl RouteBits {
    /// Adds a route, unless its number is beyond what a set may have. Such a set is refused.
    pub(super) fn insert(&mut self, route: usize) {
        self.0.get_mut(route / 64).into_iter().for_each(|bits| *bits |= 1 << (route % 64));
    }

    pub(super) fn contains(&self, route: usize) -> bool {
        self.0.get(route / 64).is_some_and(|bits| bits >> (route % 64) & 1 == 1)
    }

    pub(super) fn add(&mut self, others: &Self) {
        self.each(others, |bits, others| bits | others);
    }

    pub(super) fn remove(&mut self, others: &Self) {
        self.each(others, |bits, others| bits & !others);
    }

    pub(super) fn keep(&mut self, others: &Self) {
        self.each(others, |bits, others| bits & others);
    }

    fn each(&mut self, others: &Self, of: impl Fn(u64, u64) -> u64) {
        self.0.iter_mut().zip(&others.0).for_each(|(bits, others)| *bits = of(*bits, *others));
    }

    fn meets(&self, others: &Self) -> bool {
        self.0.iter().zip(&others.0).any(|(bits, others)| bits & others != 0)
    }

    /// The routes in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        let each =
            |(at, bits): (usize, u64)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| at * 64 + bit);
        self.0.into_iter().enumerate().filter(|(_, bits)| *bits != 0).flat_map(each)
    }
}

impl FromIterator<usize> for RouteBits {
    fn from_iter<T: IntoIterator<Item = usize>>(routes: T) -> Self {
        let mut bits = Self::default();
        routes.into_iter().for_each(|route| bits.insert(route));
        bits
    }
}

/// The routes that ask for the same. Mostly there are few.
#[derive(Debug)]
pub(super) enum RouteGroup {
    Few(Vec<usize>),
    Many(Box<RouteBits>),
}

impl Default for RouteGroup {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl RouteGroup {
    pub(super) fn insert(&mut self, route: usize) {
        match self {
            Self::Few(routes) if routes.len() < FEW_MAX => routes.push(route),
            Self::Few(routes) => {
                let bits = routes.iter().copied().chain([route]).collect();
                *self = Self::Many(Box::new(bits));
            }
            Self::Many(bits) => bits.insert(route),
        }
    }

    /// Whether one of these is among them.
    pub(super) fn is_among(&self, bits: &RouteBits) -> bool {
        match self {
            Self::Few(routes) => routes.iter().any(|route| bits.contains(*route)),
            Self::Many(routes) => routes.meets(bits),
        }
    }

    pub(super) fn add_to(&self, bits: &mut RouteBits) {
        match self {
            Self::Few(routes) => routes.iter().for_each(|route| bits.insert(*route)),
            Self::Many(routes) => bits.add(routes),
        }
    }

    pub(super) fn remove_from(&self, bits: &mut RouteBits) {
        match self {
            Self::Few(routes) => bits.remove(&routes.iter().copied().collect()),
            Self::Many(routes) => bits.remove(routes),
        }
    }
}
