// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_FILE_HPP
#define CAUSEWAY_IO_FILE_HPP

// Files of a POSIX system: the calls behind posix_storage (io/file_storage.hpp says how they make a write atomic), and
// files mapped into memory.

#include <causeway/core/owned_descriptor.hpp>
#include <causeway/core/result.hpp>
#include <causeway/io/file_storage.hpp>
#include <causeway/io/storage.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

namespace detail {

CAUSEWAY_DECL result<owned_descriptor> open_file(const std::string& path, int flags);
CAUSEWAY_DECL result<std::size_t> file_size(const owned_descriptor& file, const std::string& path);
CAUSEWAY_DECL result<void> write_all(const owned_descriptor& file, std::span<const std::byte> bytes,
                                     const std::string& path);
CAUSEWAY_DECL result<void> sync(const owned_descriptor& file, const std::string& path);

}  // namespace detail

/// A read-only view of a file through the page cache; nothing is read before it is touched. The file must not be
/// shortened while it is mapped, and a disk that fails under it ends the program (SIGBUS): use `posix_storage::read` where
/// an error must be handled. Threads may read it together.
class mapped_file {
 public:
  mapped_file() = default;

  CAUSEWAY_DECL static result<mapped_file> open(const std::string& path);

  mapped_file(mapped_file&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The calls of the system. Stateless.
class posix_file_system {
 public:
  class file_type {
   public:
    CAUSEWAY_DECL file_type(owned_descriptor opened, std::string path);

   private:
    friend posix_file_system;
    owned_descriptor descriptor_;
    std::string path_;  // for messages
  };

  CAUSEWAY_DECL result<file_type> create(const std::string& path);
  CAUSEWAY_DECL result<void> write(file_type& f, std::span<const std::byte> bytes);
  result<void> sync(file_type& f) { return detail::sync(f.descriptor_, f.path_); }
  CAUSEWAY_DECL result<void> close(file_type& f);

  CAUSEWAY_DECL result<void> rename(const std::string& from, const std::string& to);
  CAUSEWAY_DECL result<void> unlink(const std::string& path);

  /// File systems that cannot sync folders are taken at their word.
  CAUSEWAY_DECL result<void> sync_folder(const std::string& folder);

  CAUSEWAY_DECL folder_state look(const std::string& path);
  CAUSEWAY_DECL result<void> make_folder(const std::string& path);
  CAUSEWAY_DECL result<void> remove_folder(const std::string& path);

  CAUSEWAY_DECL result<std::vector<std::string>> list(const std::string& folder);
  CAUSEWAY_DECL result<byte_vector> read(const std::string& path);

  [[nodiscard]] std::uint64_t process_id() const { return static_cast<std::uint64_t>(::getpid()); }
};

static_assert(FileSystem<posix_file_system>);

/// The disk.
using posix_storage = basic_file_storage<posix_file_system>;

static_assert(Storage<posix_storage>);

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/file.ipp>
#endif

#endif  // CAUSEWAY_IO_FILE_HPP
