//! Stacks by the sites of their instructions: what pprof shows beyond the names of frames.

use crate::frame::Origin;
use crate::intern::Interner;
use crate::profile::Profile;
use crate::runs::Runs;
use crate::weights::Tally;
use std::collections::BTreeMap;

/// Numbers before the frames in the key of a site: object and address.
const HEAD: usize = 3;

/// An address in an object, and the functions there.
pub struct Location<'a> {
    /// The number of the object; 0 if it is not known.
    pub object: u32,
    /// As the object counts it.
    pub address: u64,
    /// The numbers of the frames: what was inlined there, innermost first, then the function itself.
    pub frames: &'a [u32],
}

/// A chain in one command, and what it weighs there.
pub struct LocatedChain {
    /// The numbers of the chain and of the command's frame; folded text does not tell commands from other frames.
    pub chain: u32,
    pub command: Option<u32>,
    pub tally: Tally,
}

/// Stacks of sites, beside the same stacks by frame.
#[derive(Default)]
pub struct Locations {
    objects: Interner<u8>,
    sites: Interner<u32>,
    /// The numbers of the sites of each chain, leaf first.
    chains: Runs<u32>,
    counted: Vec<LocatedChain>,
    key: Vec<u32>,
}

impl Locations {
    /// The stacks of a profile whose frames know their origins. Functions that were inlined lie at the site of the one
    /// that they were inlined into.
    pub fn of_frames(profile: &Profile) -> Self {
        let (mut located, mut inlined) = (Self::default(), Vec::new());
        let (mut chains, mut counted) = (Runs::default(), Vec::new());
        // The site of each frame where nothing was inlined.
        let mut alone = vec![None; profile.frames()];
        for stack in 0..profile.stacks() as u32 {
            let chain = profile.chain(stack);
            let is_command = |id: &u32| matches!(profile.frame(*id).origin, Some(Origin::Command { .. }));
            let command = chain.first().copied().filter(is_command);
            chains.add(|sites| {
                for &frame in chain[usize::from(command.is_some())..].iter().rev() {
                    let alone = inlined.is_empty().then(|| &mut alone[frame as usize]);
                    if let Some(&mut Some(site)) = alone {
                        sites.push(site);
                        continue;
                    }
                    inlined.push(frame);
                    let (object, address) = match profile.frame(frame).origin {
                        Some(Origin::Code { inlined: true, .. }) => continue,
                        Some(Origin::Code { address, object, .. }) => {
                            (located.object(object), address.unwrap_or(0))
                        }
                        _ => (0, 0),
                    };
                    let site = located.site(object, address, inlined.drain(..));
                    sites.push(site);
                    if let Some(alone) = alone {
                        *alone = Some(site);
                    }
                }
                if !inlined.is_empty() {
                    sites.push(located.site(0, 0, inlined.drain(..)));
                }
            });
            counted.push(LocatedChain { chain: stack, command, tally: profile.tally(stack) });
        }
        (located.chains, located.counted) = (chains, counted);
        located
    }

    /// Behind the highest number of an object.
    pub fn objects(&self) -> usize {
        self.objects.len() + 1
    }

    pub fn sites(&self) -> usize {
        self.sites.len()
    }

    /// The number of an object; 0 if it is not known.
    pub fn object(&mut self, name: &[u8]) -> u32 {
        if matches!(name, b"" | b"[unknown]") { 0 } else { self.objects.intern(name).0 + 1 }
    }

    /// The number of a site.
    pub fn site(&mut self, object: u32, address: u64, frames: impl Iterator<Item = u32>) -> u32 {
        self.key.clear();
        self.key.extend([object, (address >> 32) as u32, address as u32]);
        self.key.extend(frames);
        self.sites.intern(&self.key).0
    }

    /// Adds chains of sites, each leaf first, and what was counted of each.
    pub fn add(&mut self, chains: Runs<u32>, counted: Vec<LocatedChain>) {
        if self.counted.is_empty() {
            (self.chains, self.counted) = (chains, counted);
            return;
        }
        // Rare: only if the input has more different chains than are named at once.
        let (mut all, mut tallies) = (Interner::default(), BTreeMap::<_, Tally>::new());
        let old = (std::mem::take(&mut self.chains), std::mem::take(&mut self.counted));
        for (chains, counted) in [old, (chains, counted)] {
            let numbers: Vec<u32> = chains.iter().map(|chain| all.intern(chain).0).collect();
            for LocatedChain { chain, command, tally } in counted {
                let sum = tallies.entry((numbers[chain as usize], command)).or_default();
                *sum = sum.plus(tally);
            }
        }
        all.iter().for_each(|chain| self.chains.add(|sites| sites.extend_from_slice(chain)));
        let counted = |((chain, command), tally)| LocatedChain { chain, command, tally };
        self.counted.extend(tallies.into_iter().map(counted));
    }

    /// How many numbers chains and sites take.
    pub fn numbers(&self) -> usize {
        const SITE: usize = 16;
        self.chains.items().len() + self.sites.arena_len() + SITE * (self.sites.len() + self.counted.len())
    }

    pub fn is_empty(&self) -> bool {
        self.counted.is_empty()
    }

    /// How many chains there are; some may be the same.
    pub fn chains(&self) -> usize {
        self.chains.len()
    }

    /// The sites of a chain, leaf first.
    pub fn chain(&self, chain: u32) -> &[u32] {
        self.chains.get(chain as usize)
    }

    /// What was counted of the chains.
    pub fn counted(&self) -> &[LocatedChain] {
        &self.counted
    }

    pub fn object_name(&self, object: u32) -> &[u8] {
        object.checked_sub(1).map_or(b"", |object| self.objects.get(object))
    }

    pub fn get(&self, site: u32) -> Location<'_> {
        let key = self.sites.get(site);
        Location {
            object: key[0],
            address: u64::from(key[1]) << 32 | u64::from(key[2]),
            frames: &key[HEAD..],
        }
    }

    /// The sites in an order that depends only on them: by object and address, then by the ranks of their frames.
    pub fn sorted_sites(&self, ranks: &[u32]) -> Vec<u32> {
        let mut objects: Vec<u32> = (0..self.objects.len() as u32).collect();
        objects.sort_unstable_by_key(|&object| self.objects.get(object));
        let mut of_object = vec![0; objects.len() + 1];
        for (place, &object) in objects.iter().enumerate() {
            of_object[object as usize + 1] = place as u32 + 1;
        }
        let place = |id| {
            let site = self.get(id);
            (of_object[site.object as usize], site.address, id)
        };
        let mut sites: Vec<_> = (0..self.sites.len() as u32).map(place).collect();
        sites.sort_unstable_by(|a, b| {
            let frames = |id| self.get(id).frames.iter().map(|&frame| ranks[frame as usize]);
            (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| frames(a.2).cmp(frames(b.2)))
        });
        sites.into_iter().map(|(_, _, id)| id).collect()
    }
}
