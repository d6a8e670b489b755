use super::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn held<T>(object: T) -> Held<T> {
    Held { object, v6: false }
}

#[test]
fn numbers_outside_the_table_are_foreign() {
    let table: Box<FdTable<Arc<u32>>> = Box::new(FdTable::new());
    for fd in [-1, i32::MIN, i32::MAX, LIMIT as i32] {
        assert!(table.is_foreign(fd));
        assert!(table.get(fd).is_none());
        assert_eq!(
            table.insert(fd, held(Arc::new(1))).unwrap_err(),
            Errno(libc::EMFILE)
        );
    }
    assert!(table.is_empty());
}

#[test]
fn a_user_keeps_the_object_after_close() {
    let table: Box<FdTable<Arc<u32>>> = Box::new(FdTable::new());
    let object = Arc::new(5);
    table.insert(7, held(object.clone())).unwrap();
    let user = table.get(7).unwrap();
    assert_eq!(*table.unlink(7).unwrap().object, 5);
    assert!(table.is_foreign(7));
    assert_eq!(Arc::strong_count(&object), 2, "the user's share");
    // The number is used again while the old user still reads.
    table.insert(7, held(Arc::new(6))).unwrap();
    assert_eq!((*user.object, *table.get(7).unwrap().object), (5, 6));
    drop(user);
    assert_eq!(Arc::strong_count(&object), 1);
}

/// Random operations against a map.
#[test]
fn behaves_like_a_map() {
    let table: Box<FdTable<Arc<u32>>> = Box::new(FdTable::new());
    let mut model: HashMap<i32, Arc<u32>> = HashMap::new();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for step in 0..200_000_u32 {
        let fd = (random() % 1500) as i32;
        match random() % 3 {
            0 => {
                let object = Arc::new(step);
                let stale = table.insert(fd, held(object.clone())).unwrap();
                assert_eq!(stale.map(|h| h.object), model.insert(fd, object));
            }
            1 => assert_eq!(table.unlink(fd).map(|h| h.object), model.remove(&fd)),
            _ => {
                assert_eq!(
                    table.get(fd).map(|h| *h.object),
                    model.get(&fd).map(|o| **o)
                );
                assert_eq!(table.is_foreign(fd), !model.contains_key(&fd));
            }
        }
        assert_eq!(table.is_empty(), model.is_empty());
    }
    let mut seen = 0;
    table.for_each(|fd, h| {
        assert!(Arc::ptr_eq(&h.object, &model[&fd]));
        seen += 1;
    });
    assert_eq!(seen, model.len());
    for object in model.values() {
        assert_eq!(Arc::strong_count(object), 2, "the table's and the model's");
    }
    assert!(
        table.fresh.load(Ordering::Relaxed) <= 1500,
        "entries are recycled"
    );
}

/// An object that notices when it is read after its end.
struct Canary {
    alive: AtomicBool,
    fd: i32,
    living: Arc<AtomicUsize>,
}

impl Drop for Canary {
    fn drop(&mut self) {
        assert!(self.alive.swap(false, Ordering::SeqCst), "dropped twice");
        self.living.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn readers_never_see_a_dead_object_nor_another_numbers() {
    let table: &'static FdTable<Arc<Canary>> = Box::leak(Box::new(FdTable::new()));
    let living = Arc::new(AtomicUsize::new(0));
    let hits = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for base in 0..2 {
            let living = living.clone();
            scope.spawn(move || {
                for turn in 0..150_000 {
                    let fd = (base + turn) % 3;
                    living.fetch_add(1, Ordering::SeqCst);
                    let alive = AtomicBool::new(true);
                    let canary = Canary {
                        alive,
                        fd,
                        living: living.clone(),
                    };
                    table.insert(fd, held(Arc::new(canary))).unwrap();
                    if turn % 2 == 0 {
                        table.unlink((fd + 1) % 3);
                    }
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for turn in 0..300_000 {
                    let fd = turn % 3;
                    if let Some(found) = table.get(fd) {
                        assert!(found.object.alive.load(Ordering::SeqCst));
                        assert_eq!(found.object.fd, fd);
                        hits.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(hits.load(Ordering::Relaxed) > 0);
    for fd in 0..3 {
        table.unlink(fd);
    }
    assert!(table.is_empty());
    assert_eq!(living.load(Ordering::SeqCst), 0, "every object was dropped");
}
