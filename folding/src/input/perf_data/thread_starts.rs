//! Where threads begin, by more than names, and what beyond that is no caller.

use super::address_resolver::ResolvedAddress;
use super::chains::Chains;
use crate::symbols::{AddressesToName, ObjectId, Symbols};

/// What is known of each place.
pub struct ThreadStarts {
    /// Whether user threads begin in its function; None where that was not asked, or only the name could say.
    pub begins: Vec<Option<bool>>,
    /// It is said to have called a function in which threads begin, and there is no code, or no call.
    pub no_caller: Vec<bool>,
}

impl ThreadStarts {
    /// order: numbers of the places, those of one object together
    pub fn of(chains: &Chains, order: &[u32], resolved: &[ResolvedAddress], symbols: &mut Symbols) -> Self {
        let mut begins = vec![None; resolved.len()];
        let mut ask_all = |wanted: &[bool], begins: &mut [Option<bool>]| {
            ask(order, resolved, wanted, |places| symbols.begin_threads(places), begins);
        };
        let mut wanted = vec![false; resolved.len()];
        chains.recorded().filter_map(<[u32]>::last).for_each(|&id| wanted[id as usize] = true);
        ask_all(&wanted, &mut begins);
        // Of the others some go on beyond the function in which their thread begins.
        let unending = |begins: &[Option<bool>], chain: &[u32]| {
            chain.last().is_some_and(|&id| begins[id as usize] != Some(true))
        };
        wanted.fill(false);
        for chain in chains.recorded().filter(|chain| unending(&begins, chain)) {
            called(chain, resolved).for_each(|(id, _)| wanted[id as usize] = true);
        }
        ask_all(&wanted, &mut begins);
        wanted.fill(false);
        for chain in chains.recorded().filter(|chain| unending(&begins, chain)) {
            let of_starts = called(chain, resolved).filter(|(id, _)| begins[*id as usize] == Some(true));
            of_starts.for_each(|(_, caller)| wanted[caller as usize] = true);
        }
        let mut calls = vec![true; resolved.len()];
        ask(order, resolved, &wanted, |places| symbols.are_calls(places), &mut calls);
        let no_caller = calls.iter().zip(resolved).map(|(call, place)| !call || !place.mapped).collect();
        Self { begins, no_caller }
    }
}

/// The places that were called, each with the one that called it.
fn called(chain: &[u32], resolved: &[ResolvedAddress]) -> impl Iterator<Item = (u32, u32)> {
    let by_call = |pair: &&[u32]| resolved[pair[1] as usize].returns;
    chain.windows(2).filter(by_call).map(|pair| (pair[0], pair[1]))
}

/// Asks of the wanted places, one object after the other.
fn ask<A: Copy>(
    order: &[u32],
    resolved: &[ResolvedAddress],
    wanted: &[bool],
    mut of_object: impl FnMut(&AddressesToName) -> Vec<A>,
    answers: &mut [A],
) {
    let object = |id: &u32| resolved[*id as usize].object;
    for ids in order.chunk_by(|a, b| object(a) == object(b)) {
        let asked: Vec<u32> = ids.iter().copied().filter(|&id| wanted[id as usize]).collect();
        let Some(object) = asked.first().map(object).filter(|&object| object != ObjectId::NONE) else {
            continue;
        };
        let offsets = asked.iter().map(|&id| resolved[id as usize].offset).collect();
        let found = of_object(&AddressesToName { object, offsets });
        asked.iter().zip(found).for_each(|(&id, answer)| answers[id as usize] = answer);
    }
}
