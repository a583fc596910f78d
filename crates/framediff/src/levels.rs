//! What only one side can separate: functions of an object whose names one side lacks, and functions that one side may
//! have inlined without a trace. Both are cut, so that the rest is compared.

use crate::cuts::Cuts;
use crate::frame_names::FrameNames;
use crate::inference::Inference;
use crate::sides::{NONE, Side};
use crate::tree::{MergedTree, ROOT};
use std::collections::{HashMap, HashSet};

/// How far the shares of nameless frames of an object may be apart on the two sides.
const MOST_APART: f64 = 0.1;

pub fn nameless(sides: &[Side; 2], names: &FrameNames) -> Cuts {
    let mut known: [HashSet<u32>; 2] = Default::default();
    // By object: us of frames, and of those without a name.
    let mut us: HashMap<u32, [[f64; 2]; 2]> = HashMap::new();
    for (side, profiles) in sides.iter().enumerate() {
        for profile in profiles.profiles() {
            known[side].extend(profile.key.iter().map(|&key| names.of(key)));
            let mut weight = vec![0.0; profile.key.len()];
            for stack in profile.stacks.iter().filter(|stack| stack.node != NONE) {
                weight[stack.node as usize] += stack.weight * profile.us;
            }
            for node in (0..profile.key.len()).rev() {
                let object = us.entry(profile.object[node]).or_default();
                object[side][0] += weight[node];
                if names.keys[profile.key[node] as usize].nameless {
                    object[side][1] += weight[node];
                }
                if profile.parent[node] != NONE {
                    weight[profile.parent[node] as usize] += weight[node];
                }
            }
        }
    }
    let differ = |us: &[[f64; 2]; 2]| {
        let [a, b] = us.map(|[all, nameless]| if all > 0.0 { nameless / all } else { f64::NAN });
        (a - b).abs() > MOST_APART
    };
    let nameless = us.iter().filter(|(_, us)| differ(us)).map(|(&object, _)| object).collect();
    Cuts::new(nameless, known[0].intersection(&known[1]).copied().collect())
}

/// Functions, each with the path of its caller, that one side alone seems to have because the other may have inlined
/// them: it has no inlined functions of that object, the caller costs the same with all below, and what the other
/// side alone has below the caller are functions that these call.
pub fn inlined(
    sides: &[Side; 2],
    tree: &MergedTree,
    names: &FrameNames,
    inference: &Inference,
) -> Vec<(u64, u32)> {
    let tells = sides.each_ref().map(|side| {
        let frames = side.profiles().flat_map(|profile| profile.object.iter().zip(&profile.inlined));
        frames.filter(|(_, inlined)| **inlined).map(|(&object, _)| object).collect::<HashSet<u32>>()
    });
    let mut alone: HashMap<u32, [Vec<u32>; 2]> = HashMap::new();
    for node in 1..tree.len() as u32 {
        let above = tree.parent[node as usize];
        if let Some(side) = tree.only(node) {
            if tree.only(above).is_none() && inference.is_different(node) {
                alone.entry(above).or_default()[side].push(node);
            }
        }
    }
    let children = tree.children();
    let mut cut = Vec::new();
    for (above, found) in alone {
        if above == ROOT || inference.is_different(above) {
            continue;
        }
        for side in 0..2 {
            let may_be_inlined = |&node: &u32| {
                let object = tree.object[node as usize];
                let key = &names.keys[tree.key[node as usize] as usize];
                let one_object = object == tree.object[above as usize];
                one_object && !key.thread && !key.kernel && !tells[1 - side].contains(&object)
            };
            let candidates: Vec<u32> = found[side].iter().copied().filter(may_be_inlined).collect();
            // Where a function was inlined, its caller calls what it called.
            let below = candidates.iter().flat_map(|&node| &children[node as usize]);
            let below: HashSet<u32> = below.map(|&node| tree.key[node as usize]).collect();
            if found[1 - side].iter().all(|&node| below.contains(&tree.key[node as usize])) {
                let path = tree.path[above as usize];
                cut.extend(candidates.iter().map(|&node| (path, tree.key[node as usize])));
            }
        }
    }
    cut
}
