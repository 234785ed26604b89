// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_FILE_HPP
#define CAUSEWAY_IO_FILE_HPP

// Files of a POSIX system. A write goes to a temporary file beside its target, is synced, renamed over the target, and the
// folder is synced: after a crash at any point the target is whole, old or new. A failed fsync is never repeated on the
// same file, because the kernel may have dropped the pages and would then report success (Rebello et al. 2020).

#include <causeway/core/result.hpp>
#include <causeway/io/storage.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace causeway::inline CAUSEWAY_ABI::io {

namespace detail {

class descriptor;
result<descriptor> open_file(const std::string& path, int flags);
result<std::size_t> file_size(const descriptor& file, const std::string& path);
error os_error(const std::string& path, const std::string& doing, int code);
result<void> write_all(const descriptor& file, std::span<const std::byte> bytes, const std::string& path);
result<void> sync(const descriptor& file, const std::string& path);
result<void> sync_folder(const std::string& folder);
result<void> make_folders(const std::string& folder);
result<void> write_and_close(const std::string& path, const byte_producer& producer);
std::string folder_of(const std::string& path);

}  // namespace detail

/// A read-only view of a file through the page cache; nothing is read before it is touched. The file must not be
/// shortened while it is mapped, and a disk that fails under it ends the program (SIGBUS): use `posix_storage::read` where
/// an error must be handled. Threads may read it together.
class mapped_file {
 public:
  mapped_file() = default;

  static result<mapped_file> open(const std::string& path);

  mapped_file(mapped_file&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)} {}
  mapped_file& operator=(mapped_file&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~mapped_file() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The disk. Stateless; see Storage for what the members promise. Two processes may write the same path: one of the two
/// contents wins, whole.
class posix_storage {
 public:
  /// Errors: errc::disk_full (no space, quota or file size limit), errc::io_failed, or the producer's own.
  result<void> write_atomic(const std::string& path, const byte_producer& producer) {
    const std::string folder = detail::folder_of(path);
    CAUSEWAY_TRY(detail::make_folders(folder));
    const std::string temporary = path + '.' + std::to_string(::getpid()) + ".tmp";
    if (auto written = detail::write_and_close(temporary, producer); !written) {
      ::unlink(temporary.c_str());
      return written;
    }
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      const int code = errno;
      ::unlink(temporary.c_str());
      return detail::os_error(path, "rename the finished file to its final name", code);
    }
    return detail::sync_folder(folder);
  }

  result<byte_vector> read(const std::string& path);
  result<std::vector<std::string>> list(const std::string& folder);

  result<void> remove(const std::string& path) {
    if (::unlink(path.c_str()) == 0) return detail::sync_folder(detail::folder_of(path));
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return detail::os_error(path, "remove it", errno);
  }
};

static_assert(Storage<posix_storage>);

namespace detail {

/// Owns a file descriptor.
class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_{fd} {}
  descriptor(descriptor&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() { (void)close(); }

  [[nodiscard]] int get() const noexcept { return fd_; }

  /// False if the system reports a late write error (network file systems do it here).
  bool close() noexcept { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

inline error os_error(const std::string& path, const std::string& doing, int code) {
  const std::string reason = std::string{"could not "} + doing + ": " + std::strerror(code);
  switch (code) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return fail(errc::disk_full, path, reason + ". Free some space or choose another folder; older files are untouched");
    case ENOENT:
    case ENOTDIR: return fail(errc::not_found, path, reason + ". Check the path");
    case EACCES:
    case EPERM:
    case EROFS: return fail(errc::io_failed, path, reason + ". Check the owner and permissions of the file and its folder");
    case EIO:
      return fail(errc::io_failed, path, reason + ". The disk may be failing: look at the system log, use another disk");
    default: return fail(errc::io_failed, path, reason);
  }
}

inline std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

inline result<descriptor> open_file(const std::string& path, int flags) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (fd >= 0) return descriptor{fd};
    if (errno != EINTR) return os_error(path, "open it", errno);
  }
}

inline result<std::size_t> file_size(const descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return os_error(path, "ask for its size", errno);
  if (!S_ISREG(info.st_mode)) return fail(errc::io_failed, path, "this is not a regular file. Give the path of a file");
  return static_cast<std::size_t>(info.st_size);
}

inline result<void> write_all(const descriptor& file, std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t most = std::size_t{1} << 30U;  // one call writes less than 2 GiB on Linux anyway
  while (!bytes.empty()) {
    const ::ssize_t n = ::write(file.get(), bytes.data(), std::min(bytes.size(), most));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "write to it", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

inline result<void> sync(const descriptor& file, const std::string& path) {
  if (::fsync(file.get()) == 0) return {};
  return os_error(path, "make it durable (fsync)", errno);
}

/// Makes a rename or removal in `folder` durable. File systems that cannot sync folders are taken at their word.
inline result<void> sync_folder(const std::string& folder) {
  CAUSEWAY_ASSIGN(const descriptor file, open_file(folder, O_RDONLY | O_DIRECTORY));
  if (::fsync(file.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return {};
  return os_error(folder, "make the folder durable (fsync)", errno);
}

inline result<void> make_folders(const std::string& folder) {
  struct stat info {};
  if (folder.empty() || ::stat(folder.c_str(), &info) == 0) return {};
  const std::string parent = folder_of(folder);
  CAUSEWAY_TRY(make_folders(parent));
  if (::mkdir(folder.c_str(), 0777) != 0) {
    if (errno == EEXIST) return {};  // another process was quicker
    return os_error(folder, "make the folder", errno);
  }
  return sync_folder(parent);
}

inline result<void> write_and_close(const std::string& path, const byte_producer& producer) {
  CAUSEWAY_ASSIGN(descriptor file, open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  CAUSEWAY_TRY(producer([&](std::span<const std::byte> piece) { return write_all(file, piece, path); }));
  CAUSEWAY_TRY(sync(file, path));
  if (!file.close()) return os_error(path, "close it", errno);
  return {};
}

}  // namespace detail

inline result<mapped_file> mapped_file::open(const std::string& path) {
  CAUSEWAY_ASSIGN(const detail::descriptor file, detail::open_file(path, O_RDONLY));
  CAUSEWAY_ASSIGN(const std::size_t size, detail::file_size(file, path));
  mapped_file mapped;
  if (size == 0) return mapped;
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return detail::os_error(path, "map it into memory", errno);
  mapped.data_ = data;
  mapped.size_ = size;
  return mapped;
}

inline result<byte_vector> posix_storage::read(const std::string& path) {
  CAUSEWAY_ASSIGN(const detail::descriptor file, detail::open_file(path, O_RDONLY));
  CAUSEWAY_ASSIGN(const std::size_t size, detail::file_size(file, path));
  byte_vector content(size);
  std::size_t at = 0;
  while (at < size) {
    const ::ssize_t n = ::read(file.get(), content.data() + at, std::min(size - at, std::size_t{1} << 30U));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return detail::os_error(path, "read it", errno);
    if (n == 0) break;  // became shorter while we read; its own checks will tell
    at += static_cast<std::size_t>(n);
  }
  content.resize(at);
  return content;
}

inline result<std::vector<std::string>> posix_storage::list(const std::string& folder) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return detail::os_error(folder, "list the folder", errno);
  std::vector<std::string> names;
  struct stat info {};
  for (const dirent* entry = ::readdir(stream); entry != nullptr; entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    if (::stat((folder + '/' + name).c_str(), &info) == 0 && S_ISREG(info.st_mode)) names.push_back(std::move(name));
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace causeway::inline CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_FILE_HPP
