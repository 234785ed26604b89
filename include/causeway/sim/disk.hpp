// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_SIM_DISK_HPP
#define CAUSEWAY_SIM_DISK_HPP

// A disk in memory that loses what POSIX lets a disk lose. Processes see the page cache; a crash leaves the platter and
// whatever part of the rest had been written back by chance: any subset of the pages of a file that were not synced, torn
// between sectors, any of the lengths that the file had meanwhile, and any subset and order of the names that were made,
// replaced or removed in a folder since it was synced. Only fsync of a file makes its bytes durable, only fsync of the
// folder its name. `io::basic_file_storage<sim::disk>` is a Storage on it. Everything is a function of the seed.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/core/rng.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/sim/disk_tree.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway::inline CAUSEWAY_ABI::sim {

struct disk_options {
  std::uint64_t seed = 0;
  std::size_t page_bytes = 4096;   ///< what the kernel writes back at once; a multiple of sector_bytes
  std::size_t sector_bytes = 512;  ///< what the disk writes whole or not at all; page_bytes: pages are never torn
};

/// What goes wrong. Calls are counted from 1 since `set_faults`; each but halt and capacity happens once.
struct disk_faults {
  static constexpr std::uint64_t never = 0;
  static constexpr std::uint64_t unlimited = ~std::uint64_t{0};

  std::uint64_t fail_create = never;       ///< EIO
  std::uint64_t fail_write = never;        ///< EIO, after a part of the bytes
  std::uint64_t fail_sync = never;         ///< EIO; some dirty pages were written, the others are dropped for good
  std::uint64_t fail_sync_folder = never;  ///< EIO; the same with names
  std::uint64_t fail_rename = never;       ///< EIO
  std::uint64_t fail_unlink = never;       ///< EIO
  std::uint64_t fail_read = never;         ///< EIO
  std::uint64_t halt = never;  ///< counts all calls that change something: until crash or kill, it and all after fail
  std::uint64_t capacity = unlimited;  ///< bytes in all files; beyond it ENOSPC, after the part that fits
};

/// How long it takes. Nothing by default.
struct disk_timing {
  double bytes_per_s = std::numeric_limits<double>::infinity();  ///< of writing
  duration sync{0};                                              ///< each fsync, of a file or a folder
};

/// Models io::FileSystem. Copies share one disk. Thread-safe.
class disk {
 public:
  /// An open file. Useless after a crash or kill.
  struct file_type {
    std::uint64_t inode = 0;
    std::uint64_t life = 0;
    std::string path;
  };

  /// Draws from [0, bound): decides what a crash leaves.
  using chooser = std::function<std::uint64_t(std::uint64_t bound)>;

  explicit disk(disk_options options = {}) : shared_{std::make_shared<shared>(options)} {}

  // ---- what a process may call: io::FileSystem ------------------------------------------------------------------------

  result<file_type> create(const std::string& path);
  result<void> write(file_type& file, std::span<const std::byte> bytes);
  result<void> sync(file_type& file);
  result<void> close(file_type& file);
  result<void> rename(const std::string& from, const std::string& to);
  result<void> unlink(const std::string& path);
  result<void> sync_folder(const std::string& folder);
  io::folder_state look(const std::string& path);
  result<void> make_folder(const std::string& path);
  result<void> remove_folder(const std::string& path);
  result<std::vector<std::string>> list(const std::string& folder);
  result<io::byte_vector> read(const std::string& path);
  [[nodiscard]] std::uint64_t process_id() const;

  // ---- what happens to it ---------------------------------------------------------------------------------------------

  /// Replaces the faults and starts their counting anew.
  void set_faults(const disk_faults& faults);

  /// Writing and fsync take time from now on: `waiter` is asked to let it pass, before the call does anything.
  using waiter = std::function<void(duration)>;
  void set_waiter(waiter wait);
  void set_timing(const disk_timing& timing);
  [[nodiscard]] disk_timing timing() const;

  /// Calls so far that change something, those that failed included.
  [[nodiscard]] std::uint64_t operations() const;

  /// Power loss and reboot: afterwards the disk holds one of the states that the calls so far allow, drawn from the seed or
  /// by `choose`. Faults and open files are gone.
  void crash();
  void crash(const chooser& choose);

  /// The process dies, the machine lives: nothing is lost but open files and faults.
  void kill();

  /// Flips a bit (modulo the file's length) where it lies on the platter. errc::not_found; an empty file has none.
  result<void> flip(const std::string& path, std::uint64_t bit);

  /// Flips a bit somewhere in the files, drawn from the seed. False if there is not a byte.
  bool flip_any();

  /// An independent disk in the same state.
  [[nodiscard]] disk clone() const;

 private:
  struct shared {
    explicit shared(const disk_options& o) : options{o}, tree{o.page_bytes, o.sector_bytes}, draws{o.seed} {}
    shared(const shared& other) = default;

    disk_options options;
    disk_faults faults;
    disk_timing timing;
    waiter wait;
    disk_faults seen{.capacity = 0};  // counts of calls since set_faults
    detail::disk_tree tree;
    rng draws;
    std::uint64_t operations = 0;
    std::uint64_t life = 0;
    std::uint64_t process = 1;
    bool running = true;

    [[nodiscard]] chooser choice() {
      return [this](std::uint64_t bound) { return draws.below(bound); };
    }
    void next_life() {
      ++life;
      process += draws.below(2);  // a restarted process may get the same id again
      faults = {};
      running = true;
    }
    /// Counts a call that changes something. False: the disk stops now, although this call may yet have taken place.
    bool count() {
      ++operations;
      if (++seen.halt == faults.halt) running = false;
      return running;
    }
    static bool hits(std::uint64_t& count, std::uint64_t fault) { return ++count == fault; }
  };

  /// The lock, and the state without the mutex, so that it can be copied.
  struct locked {
    std::unique_lock<std::mutex> lock;
    shared* operator->() const { return state; }
    shared* state;
  };
  [[nodiscard]] locked open() const { return {std::unique_lock{*mutex_}, shared_.get()}; }

  /// Without the lock: others may use the disk meanwhile.
  void let_pass(duration d) const {
    if (d <= duration{0}) return;
    const waiter wait = open()->wait;
    if (wait) wait(d);
  }

  static error halted(const std::string& path) { return io::os_error(path, "reach the disk, which has stopped", EIO); }
  static result<void> outcome(int code, const std::string& path, const char* doing) {
    if (code == 0) return {};
    return io::os_error(path, doing, code);
  }

  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::shared_ptr<shared> shared_;
};

inline result<disk::file_type> disk::create(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_create, self->faults.fail_create)) return io::os_error(path, "open it", EIO);
  std::uint64_t inode = 0;
  const int code = self->tree.create(path, inode);
  if (code != 0) return io::os_error(path, "open it", code);
  if (!on) return halted(path);
  return file_type{inode, self->life, path};
}

inline result<void> disk::write(file_type& file, std::span<const std::byte> bytes) {
  const double took = static_cast<double>(bytes.size()) / timing().bytes_per_s;
  let_pass(duration{std::llround(std::min(took, 1e9) * 1e9)});
  const locked self = open();
  if (!self->running) return halted(file.path);
  const bool on = self->count();
  if (file.life != self->life) return io::os_error(file.path, "write to it", EBADF);
  int code = 0;
  if (disk::shared::hits(self->seen.fail_write, self->faults.fail_write)) {
    code = EIO;
    bytes = bytes.first(self->draws.below(bytes.size() + 1));
  }
  if (self->faults.capacity != disk_faults::unlimited) {
    const std::uint64_t used = self->tree.used();
    const std::uint64_t space = self->faults.capacity > used ? self->faults.capacity - used : 0;
    if (bytes.size() > space) {
      code = ENOSPC;
      bytes = bytes.first(space);
    }
  }
  if (!self->tree.append(file.inode, bytes)) code = EBADF;
  if (!on) return halted(file.path);
  return outcome(code, file.path, "write to it");
}

inline result<void> disk::sync(file_type& file) {
  let_pass(timing().sync);
  const locked self = open();
  if (!self->running || !self->count()) return halted(file.path);
  if (file.life != self->life) return io::os_error(file.path, "make it durable (fsync)", EBADF);
  const bool fails = disk::shared::hits(self->seen.fail_sync, self->faults.fail_sync);
  if (fails) {
    self->tree.lose(file.inode, self->choice());
    return io::os_error(file.path, "make it durable (fsync)", EIO);
  }
  return outcome(self->tree.sync(file.inode) ? 0 : EBADF, file.path, "make it durable (fsync)");
}

inline result<void> disk::close(file_type& file) {
  const locked self = open();
  if (!self->running) return halted(file.path);
  if (file.life != self->life) return io::os_error(file.path, "close it", EBADF);
  file.life = ~std::uint64_t{0};
  return {};
}

inline result<void> disk::rename(const std::string& from, const std::string& to) {
  const locked self = open();
  if (!self->running) return halted(to);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_rename, self->faults.fail_rename)) {
    return io::os_error(to, "rename the finished file to its final name", EIO);
  }
  const int code = self->tree.rename(from, to);
  if (!on) return halted(to);
  return outcome(code, to, "rename the finished file to its final name");
}

inline result<void> disk::unlink(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  if (disk::shared::hits(self->seen.fail_unlink, self->faults.fail_unlink)) return io::os_error(path, "remove it", EIO);
  const int code = self->tree.unlink(path);
  if (!on) return halted(path);
  return outcome(code, path, "remove it");
}

inline result<void> disk::sync_folder(const std::string& folder) {
  let_pass(timing().sync);
  const locked self = open();
  if (!self->running || !self->count()) return halted(folder);
  if (disk::shared::hits(self->seen.fail_sync_folder, self->faults.fail_sync_folder)) {
    self->tree.lose_names(folder, self->choice());
    return io::os_error(folder, "make the folder durable (fsync)", EIO);
  }
  return outcome(self->tree.sync_folder(folder), folder, "make the folder durable (fsync)");
}

inline io::folder_state disk::look(const std::string& path) {
  const locked self = open();
  return self->running && self->tree.is_folder(path) ? io::folder_state::present : io::folder_state::missing;
}

inline result<void> disk::make_folder(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  const int code = self->tree.make_folder(path);
  if (!on) return halted(path);
  return outcome(code == EEXIST ? 0 : code, path, "make the folder");
}

inline result<void> disk::remove_folder(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  const bool on = self->count();
  const int code = self->tree.remove_folder(path);
  if (!on) return halted(path);
  return outcome(code, path, "remove the folder");
}

inline result<std::vector<std::string>> disk::list(const std::string& folder) {
  const locked self = open();
  if (!self->running) return halted(folder);
  std::vector<std::string> names;
  const int code = self->tree.list(folder, names);
  if (code != 0) return io::os_error(folder, "list the folder", code);
  return names;
}

inline result<io::byte_vector> disk::read(const std::string& path) {
  const locked self = open();
  if (!self->running) return halted(path);
  if (disk::shared::hits(self->seen.fail_read, self->faults.fail_read)) return io::os_error(path, "read it", EIO);
  const io::byte_vector* content = self->tree.content(path);
  if (content == nullptr) return io::os_error(path, "open it", ENOENT);
  return *content;
}

inline std::uint64_t disk::process_id() const { return open()->process; }

inline void disk::set_faults(const disk_faults& faults) {
  const locked self = open();
  self->faults = faults;
  self->seen = {.capacity = 0};
}

inline void disk::set_waiter(waiter wait) { open()->wait = std::move(wait); }
inline void disk::set_timing(const disk_timing& timing) { open()->timing = timing; }
inline disk_timing disk::timing() const { return open()->timing; }

inline std::uint64_t disk::operations() const { return open()->operations; }

inline void disk::crash() {
  const chooser choose = open()->choice();  // the lock is free again after this line
  crash(choose);
}

inline void disk::crash(const chooser& choose) {
  const locked self = open();
  self->tree.crash(choose);
  self->next_life();
}

inline void disk::kill() {
  const locked self = open();
  self->next_life();
}

inline result<void> disk::flip(const std::string& path, std::uint64_t bit) {
  const locked self = open();
  return outcome(self->tree.flip(path, bit) ? 0 : ENOENT, path, "flip a bit of it");
}

inline bool disk::flip_any() {
  const locked self = open();
  const std::uint64_t bytes = self->tree.used();
  return bytes != 0 && self->tree.flip_nth(self->draws.below(8 * bytes));
}

inline disk disk::clone() const {
  disk copy;
  copy.shared_ = std::make_shared<shared>(*open().state);
  return copy;
}

static_assert(io::FileSystem<disk>);

}  // namespace causeway::inline CAUSEWAY_ABI::sim

#endif  // CAUSEWAY_SIM_DISK_HPP
