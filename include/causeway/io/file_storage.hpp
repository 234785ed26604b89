// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_FILE_STORAGE_HPP
#define CAUSEWAY_IO_FILE_STORAGE_HPP

// Whole files, written atomically, out of what a file system offers. A write goes to a temporary file beside its target, is
// synced, renamed over the target, and the folder is synced: after a crash at any point the target is whole, old or new. A
// failed sync is never repeated on the same file, because the kernel may have dropped the pages and would then report
// success (Rebello et al. 2020). The file system is a parameter, so that a simulated disk can lose all that POSIX lets a
// disk lose.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

/// What stands at a path where a folder is wanted.
enum class folder_state : std::uint8_t {
  missing,
  present,
  closed,  ///< there, but this process may not open it, so it made nothing in it that would have to be synced
};

/// Requirements: the calls of POSIX, one to one. Nothing is durable that was not synced. Paths use '/'. Safe to use from
/// several threads for different files. Errors as `os_error` makes them from errno.
///
/// - `create(path)`: an empty file open for writing; one that was there is emptied. `write` appends all of the bytes.
/// - `sync(file)`: fsync of content and length, not of the name. `sync_folder(folder)`: of the names in it.
/// - `rename(from, to)` replaces `to`. `unlink(path)`: errc::not_found if there is no such file.
/// - `make_folder(path)`: no error if another process was quicker. `remove_folder(path)`: an empty one.
/// - `list(folder)`: names of the regular files right in it, sorted. `read(path)`: the whole content.
/// - `process_id()`: differs between processes that write the same folder at the same time.
template <class F>
concept FileSystem = Movable<F> && std::move_constructible<typename F::file_type> &&
    requires(F& files, typename F::file_type& file, const std::string& path, std::span<const std::byte> bytes) {
  { files.create(path) } -> std::same_as<result<typename F::file_type>>;
  { files.write(file, bytes) } -> std::same_as<result<void>>;
  { files.sync(file) } -> std::same_as<result<void>>;
  { files.close(file) } -> std::same_as<result<void>>;
  { files.rename(path, path) } -> std::same_as<result<void>>;
  { files.unlink(path) } -> std::same_as<result<void>>;
  { files.sync_folder(path) } -> std::same_as<result<void>>;
  { files.look(path) } -> std::same_as<folder_state>;
  { files.make_folder(path) } -> std::same_as<result<void>>;
  { files.remove_folder(path) } -> std::same_as<result<void>>;
  { files.list(path) } -> std::same_as<result<std::vector<std::string>>>;
  { files.read(path) } -> std::same_as<result<byte_vector>>;
  { files.process_id() } -> ConvertibleTo<std::uint64_t>;
};

/// The error for an errno, with what to do about it.
CAUSEWAY_DECL error os_error(const std::string& path, const std::string& doing, int code);

namespace detail {

CAUSEWAY_DECL std::string folder_of(const std::string& path);

}  // namespace detail

/// Files of a file system; see Storage for what the members promise. Two processes may write the same path: one of the two
/// contents wins, whole. Copies share what they know about folders. Cost of a write: two syncs, and on the first one into a
/// folder a sync of every folder above it.
template <FileSystem F>
class basic_file_storage {
 public:
  basic_file_storage() requires DefaultInitializable<F> : basic_file_storage(F{}) {}
  explicit basic_file_storage(F files) : files_{std::move(files)}, known_{std::make_shared<known_folders>()} {}

  /// Errors: errc::disk_full (no space, quota or file size limit), errc::io_failed, or the producer's own. If the very last
  /// step fails, the sync of the folder, the new content is in place but may be gone after a crash.
  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
    const std::string folder = detail::folder_of(path);
    CAUSEWAY_TRY(prepare(folder));
    const std::string temporary = path + '.' + std::to_string(files_.process_id()) + ".tmp";
    auto finished = write_and_close(temporary, producer);
    if (finished) finished = files_.rename(temporary, path);
    if (!finished) {
      (void)files_.unlink(temporary);
      return finished;
    }
    return files_.sync_folder(folder);
  }

  result<byte_vector> read(const std::string& path) { return files_.read(path); }
  result<std::vector<std::string>> list(const std::string& folder) { return files_.list(folder); }

  result<void> remove(const std::string& path) {
    auto removed = files_.unlink(path);
    if (removed) return files_.sync_folder(detail::folder_of(path));
    if (removed.error().code == errc::not_found) return {};
    return removed;
  }

 private:
  struct known_folders {
    std::mutex mutex;
    std::set<std::string> durable;
  };

  result<void> write_and_close(const std::string& path, const byte_producer& producer) {
    CAUSEWAY_ASSIGN(typename F::file_type file, files_.create(path));
    CAUSEWAY_TRY(producer([&](std::span<const std::byte> piece) { return files_.write(file, piece); }));
    CAUSEWAY_TRY(files_.sync(file));
    return files_.close(file);
  }

  /// Makes `folder` and those above it durable. One that is there already may be the work of a process that died before it
  /// synced the folder above: everything in it would be lost with it.
  result<void> prepare(const std::string& folder) {
    const folder_state found = files_.look(folder);
    if (found != folder_state::missing && knows(folder)) return {};
    const std::string parent = detail::folder_of(folder);
    if (parent != folder) {
      CAUSEWAY_TRY(prepare(parent));
      CAUSEWAY_TRY(found == folder_state::missing ? make(folder, parent) : sync_if_open(parent));
    }
    const std::lock_guard lock{known_->mutex};
    known_->durable.insert(folder);
    return {};
  }

  result<void> make(const std::string& folder, const std::string& parent) {
    CAUSEWAY_TRY(files_.make_folder(folder));
    auto synced = files_.sync_folder(parent);
    if (!synced) (void)files_.remove_folder(folder);  // the next write makes it anew: a sync is not tried again
    return synced;
  }

  result<void> sync_if_open(const std::string& folder) {
    if (files_.look(folder) != folder_state::present) return {};
    return files_.sync_folder(folder);
  }

  bool knows(const std::string& folder) {
    const std::lock_guard lock{known_->mutex};
    return known_->durable.contains(folder);
  }

  F files_;
  std::shared_ptr<known_folders> known_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/file_storage.ipp>
#endif

#endif  // CAUSEWAY_IO_FILE_STORAGE_HPP
