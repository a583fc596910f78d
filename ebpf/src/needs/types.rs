//! The types of one kernel, by name: sizes of fields, arguments of events, numbers of enumerators.

use std::collections::HashMap;

use libbpf_rs::HasSize as _;
use libbpf_rs::btf::types::{Array, Composite, Enum, Int, MemberAttr};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};

use super::object::Path;

/// Bytes of a type that is read as one number.
pub trait Scalar {
    /// None for structures and unions, which nobody reads as a number.
    fn scalar_size(&self) -> Option<u32>;
}

impl Scalar for BtfType<'_> {
    fn scalar_size(&self) -> Option<u32> {
        let found = self.skip_mods_and_typedefs();
        match found.kind() {
            BtfKind::Int => u32::try_from(Int::try_from(found).ok()?.size()).ok(),
            BtfKind::Ptr => Some(8),
            BtfKind::Enum => u32::try_from(Enum::try_from(found).ok()?.size()).ok(),
            BtfKind::Array => {
                let array = Array::try_from(found).ok()?;
                let bytes = array.contained_type().scalar_size()?;
                bytes.checked_mul(u32::try_from(array.capacity()).ok()?)
            }
            _ => None,
        }
    }
}

/// What a kernel has of a field.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// None for a structure, and for bits of a number.
    pub bytes: Option<u32>,
}

pub struct Types<'a> {
    pub btf: &'a Btf<'a>,
    /// Structures, unions and enumerations; modules and headers may give one name to several.
    by_name: HashMap<&'a str, Vec<TypeId>>,
}

impl<'a> Types<'a> {
    pub fn of(btf: &'a Btf<'a>) -> Self {
        let mut by_name: HashMap<&str, Vec<TypeId>> = HashMap::new();
        let all = (1..u32::try_from(btf.len()).unwrap_or(u32::MAX)).map(TypeId::from);
        for one in all.filter_map(|id| btf.type_by_id::<BtfType>(id)) {
            let kinds = [BtfKind::Struct, BtfKind::Union, BtfKind::Enum];
            if let Some(name) =
                one.name().and_then(|name| name.to_str()).filter(|_| kinds.contains(&one.kind()))
            {
                by_name.entry(name).or_default().push(one.type_id());
            }
        }
        Self { btf, by_name }
    }

    fn named<T: TryFrom<BtfType<'a>> + 'a>(&self, name: &str) -> impl Iterator<Item = T> {
        self.by_name.get(name).into_iter().flatten().filter_map(|id| self.btf.type_by_id(*id))
    }

    /// None where this kernel has no such field.
    pub fn field(&self, path: &Path) -> Option<Field> {
        self.named::<Composite>(&path.structure).find_map(|one| self.within(one, &path.members))
    }

    fn within(&self, structure: Composite<'a>, members: &[String]) -> Option<Field> {
        let (name, rest) = members.split_first()?;
        (0..structure.len()).filter_map(|index| structure.get(index)).find_map(|member| {
            let mut found = self.btf.type_by_id::<BtfType>(member.ty)?.skip_mods_and_typedefs();
            if member.name.is_none() {
                return self.within(Composite::try_from(found).ok()?, members);
            }
            if member.name?.to_str()? != name {
                return None;
            }
            if rest.is_empty() {
                let bits = matches!(member.attr, MemberAttr::BitField { size, .. } if size > 0);
                return Some(Field { bytes: if bits { None } else { found.scalar_size() } });
            }
            while let Ok(array) = Array::try_from(found) {
                found = array.contained_type().skip_mods_and_typedefs();
            }
            self.within(Composite::try_from(found).ok()?, rest)
        })
    }

    /// Whether an enumeration has a number; true where this kernel does not tell.
    pub fn has_number(&self, enumeration: &str, value: u32) -> bool {
        let found = self.named::<Enum>(enumeration).next();
        found.is_none_or(|one| {
            (0..one.len()).filter_map(|at| one.get(at)).any(|one| one.value == i64::from(value))
        })
    }
}

/// The number of four bytes at a place, as this machine orders them.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}
