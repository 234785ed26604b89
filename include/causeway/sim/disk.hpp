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

#include <cerrno>
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

namespace causeway { inline namespace CAUSEWAY_ABI { namespace sim {

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

  CAUSEWAY_DECL explicit disk(disk_options options = {});

  // ---- what a process may call: io::FileSystem ------------------------------------------------------------------------

  CAUSEWAY_DECL result<file_type> create(const std::string& path);
  CAUSEWAY_DECL result<void> write(file_type& file, std::span<const std::byte> bytes);
  CAUSEWAY_DECL result<void> sync(file_type& file);
  CAUSEWAY_DECL result<void> close(file_type& file);
  CAUSEWAY_DECL result<void> rename(const std::string& from, const std::string& to);
  CAUSEWAY_DECL result<void> unlink(const std::string& path);
  CAUSEWAY_DECL result<void> sync_folder(const std::string& folder);
  CAUSEWAY_DECL io::folder_state look(const std::string& path);
  CAUSEWAY_DECL result<void> make_folder(const std::string& path);
  CAUSEWAY_DECL result<void> remove_folder(const std::string& path);
  CAUSEWAY_DECL result<std::vector<std::string>> list(const std::string& folder);
  CAUSEWAY_DECL result<io::byte_vector> read(const std::string& path);
  [[nodiscard]] std::uint64_t process_id() const;

  // ---- what happens to it ---------------------------------------------------------------------------------------------

  /// Replaces the faults and starts their counting anew.
  CAUSEWAY_DECL void set_faults(const disk_faults& faults);

  /// Writing and fsync take time from now on: `waiter` is asked to let it pass, before the call does anything.
  using waiter = std::function<void(duration)>;
  void set_waiter(waiter wait);
  void set_timing(const disk_timing& timing);
  [[nodiscard]] disk_timing timing() const;

  /// Calls so far that change something, those that failed included.
  [[nodiscard]] std::uint64_t operations() const;

  /// Power loss and reboot: afterwards the disk holds one of the states that the calls so far allow, drawn from the seed or
  /// by `choose`. Faults and open files are gone.
  CAUSEWAY_DECL void crash();
  CAUSEWAY_DECL void crash(const chooser& choose);

  /// The process dies, the machine lives: nothing is lost but open files and faults.
  CAUSEWAY_DECL void kill();

  /// Flips a bit (modulo the file's length) where it lies on the platter. errc::not_found; an empty file has none.
  CAUSEWAY_DECL result<void> flip(const std::string& path, std::uint64_t bit);

  /// Flips a bit somewhere in the files, drawn from the seed. False if there is not a byte.
  CAUSEWAY_DECL bool flip_any();

  /// An independent disk in the same state.
  CAUSEWAY_DECL [[nodiscard]] disk clone() const;

 private:
  struct shared {
    CAUSEWAY_DECL explicit shared(const disk_options& o);
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

    CAUSEWAY_DECL [[nodiscard]] chooser choice();
    CAUSEWAY_DECL void next_life();
    /// Counts a call that changes something. False: the disk stops now, although this call may yet have taken place.
    CAUSEWAY_DECL bool count();
    static bool hits(std::uint64_t& count, std::uint64_t fault) { return ++count == fault; }
  };

  /// The lock, and the state without the mutex, so that it can be copied.
  struct locked {
    std::unique_lock<std::mutex> lock;
    shared* operator->() const { return state; }
    shared* state;
  };
  CAUSEWAY_DECL [[nodiscard]] locked open() const;

  /// Without the lock: others may use the disk meanwhile.
  CAUSEWAY_DECL void let_pass(duration d) const;

  CAUSEWAY_DECL static error halted(const std::string& path);
  CAUSEWAY_DECL static result<void> outcome(int code, const std::string& path, const char* doing);

  std::shared_ptr<std::mutex> mutex_ = std::make_shared<std::mutex>();
  std::shared_ptr<shared> shared_;
};

inline std::uint64_t disk::process_id() const { return open()->process; }

inline void disk::set_waiter(waiter wait) { open()->wait = std::move(wait); }
inline void disk::set_timing(const disk_timing& timing) { open()->timing = timing; }
inline disk_timing disk::timing() const { return open()->timing; }

inline std::uint64_t disk::operations() const { return open()->operations; }

static_assert(io::FileSystem<disk>);

}}}  // namespace causeway::CAUSEWAY_ABI::sim

#ifndef CAUSEWAY_COMPILED
#include <causeway/sim/impl/disk.ipp>
#endif

#endif  // CAUSEWAY_SIM_DISK_HPP
