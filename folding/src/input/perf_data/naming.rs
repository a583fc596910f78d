//! Counted chains into named stacks.

use super::chains::Chains;
use super::thread_starts::ThreadStarts;
use crate::collector::{Collector, FrameRef, RawFrame, StackDetail, beyond_start};
use crate::symbols::{AddressesToName, NamedFrame, ObjectId, Symbols};
use crate::threads;
use std::ops::Range;

/// Names every place once, and hands all chains over.
pub fn name(mut chains: Chains, symbols: &mut Symbols, collector: &mut Collector, threads: usize) {
    // Nothing will come of it.
    if collector.is_ambiguous() || collector.is_full() {
        return;
    }
    collector.stats.cut_copies.absorb(chains.cut);
    collector.stats.truncated_chains += chains.truncated;
    let resolved = chains.resolved();
    let mut order: Vec<u32> = (0..resolved.len() as u32).collect();
    order.sort_unstable_by_key(|&id| resolved[id as usize]);
    let place = |id: &u32| resolved[*id as usize];

    let mut wanted: Vec<AddressesToName> = Vec::new();
    for at in order.iter().map(place).filter(|place| place.object != ObjectId::NONE) {
        match wanted.last_mut().filter(|last| last.object == at.object) {
            Some(last) => last.offsets.push(at.offset),
            None => wanted.push(AddressesToName { object: at.object, offsets: vec![at.offset] }),
        }
    }
    wanted.iter_mut().for_each(|wanted| wanted.offsets.dedup());
    let answers = symbols.name(&wanted, threads);
    let ThreadStarts { begins, no_caller } = ThreadStarts::of(&chains, &order, &resolved, symbols);

    let detail = collector.options().detail;
    let (plain, with_sites) = (detail == StackDetail::Sites, detail.has_sites());
    let mut named = ResolvedFrames { frames: Vec::new(), of_address: vec![0..0; resolved.len()] };
    let mut sites = vec![0; if with_sites { resolved.len() } else { 0 }];
    let mut order = order.iter().peekable();
    for (wanted, answer) in wanted.iter().zip(&answers) {
        let dso = symbols.object_name(wanted.object);
        if let Some(build_id) = symbols.build_id(wanted.object) {
            collector.build_id(dso, build_id);
        }
        let object = if with_sites { collector.object(dso) } else { 0 };
        let mut known = vec![[None; 2]; answer.names()];
        for (index, &offset) in wanted.offsets.iter().enumerate() {
            let here = |id: &u32| (place(id).object, place(id).offset) == (wanted.object, offset);
            while let Some(&id) = order.next_if(|id| here(id)) {
                let place = place(&id);
                let start = named.frames.len();
                let mut in_object = false;
                for &NamedFrame { name, inlined } in answer.frames(index) {
                    let symbol = answer.name(name);
                    let dso = (!inlined && (place.mapped || !symbol.is_empty())).then_some(&dso[..]);
                    in_object = dso.is_some();
                    let address = Some(place.printed());
                    let raw = RawFrame { symbol, dso, address, inlined, user: place.returns };
                    let mut make = || {
                        if plain { collector.plain_frame(&raw) } else { collector.frame(&raw) }
                    };
                    // What is said of an address without symbol depends on the address.
                    let frame = if symbol.is_empty() || !place.mapped {
                        make()
                    } else {
                        *known[name as usize][usize::from(inlined)].get_or_insert_with(make)
                    };
                    let frame = match begins[id as usize] {
                        Some(begin) if !inlined => frame.where_threads_begin(begin),
                        _ => frame,
                    };
                    let frame = if no_caller[id as usize] { frame.no_caller() } else { frame };
                    let at_address = detail == StackDetail::Addresses && !inlined;
                    named.frames.push(if at_address {
                        collector.at_address(frame, place.printed())
                    } else {
                        frame
                    });
                }
                if with_sites {
                    let object = if in_object { object } else { 0 };
                    sites[id as usize] = collector.site(object, place.printed(), &named.frames[start..]);
                }
                named.of_address[id as usize] = start..named.frames.len();
            }
        }
    }
    // Those of no object come last.
    for &id in order {
        let start = named.frames.len();
        let place = place(&id);
        let raw = RawFrame { address: Some(place.printed()), user: place.returns, ..RawFrame::default() };
        let frame = if plain { collector.plain_frame(&raw) } else { collector.frame(&raw) };
        named.frames.push(frame.no_caller());
        if with_sites {
            sites[id as usize] = collector.site(0, 0, &named.frames[start..]);
        }
        named.of_address[id as usize] = start..named.frames.len();
    }
    if detail == StackDetail::Addresses {
        // Frames that know their addresses leave nearly every chain a stack of its own.
        let (chains, frames) = chains.size();
        collector.expect(chains, frames);
    }
    let (mut stack, mut beyond) = (Vec::new(), Vec::new());
    chains.each(|chain, samples| {
        stack.clear();
        for &id in chain {
            match named.of(id) {
                &[only] => stack.push(only),
                several => stack.extend_from_slice(several),
            }
        }
        if with_sites {
            beyond.push(named.places_of(chain, beyond_start(&stack)));
        }
        if plain {
            collector.close_plain(samples, &stack);
        } else {
            samples.iter().for_each(|samples| collector.close_all(samples, &stack));
        }
    });
    if with_sites {
        let (mut chains, counted) = chains.into_parts();
        chains.shorten(&beyond);
        chains.items_mut().iter_mut().for_each(|id| *id = sites[*id as usize]);
        collector.locate(chains, counted);
    } else {
        threads::drop_in_background(chains, threads);
    }
}

/// The frames of each place, innermost first.
struct ResolvedFrames {
    frames: Vec<FrameRef>,
    of_address: Vec<Range<usize>>,
}

impl ResolvedFrames {
    fn of(&self, place: u32) -> &[FrameRef] {
        &self.frames[self.of_address[place as usize].clone()]
    }

    /// How many places the outermost frames of a chain are of.
    fn places_of(&self, chain: &[u32], mut frames: usize) -> usize {
        let of_place = |&&place: &&u32| {
            let more = frames > 0;
            frames -= frames.min(self.of(place).len());
            more
        };
        chain.iter().rev().take_while(of_place).count()
    }
}
