// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_FILE_IPP
#define CAUSEWAY_IO_IMPL_FILE_IPP

#include <causeway/io/file.hpp>

#include <algorithm>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL posix_file_system::file_type::file_type(owned_descriptor opened, std::string path)
    : descriptor_{std::move(opened)}, path_{std::move(path)} {}

CAUSEWAY_INLINE mapped_file& mapped_file::operator=(mapped_file&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

CAUSEWAY_INLINE mapped_file::~mapped_file() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

CAUSEWAY_DECL auto posix_file_system::create(const std::string& path) -> result<file_type> {
  CAUSEWAY_ASSIGN(owned_descriptor opened, detail::open_file(path, O_WRONLY | O_CREAT | O_TRUNC));
  return file_type{std::move(opened), path};
}

CAUSEWAY_DECL result<void> posix_file_system::write(file_type& f, std::span<const std::byte> bytes) {
  return detail::write_all(f.descriptor_, bytes, f.path_);
}

CAUSEWAY_DECL result<void> posix_file_system::close(file_type& f) {
  if (f.descriptor_.close()) return {};
  return os_error(f.path_, "close it", errno);
}

CAUSEWAY_DECL result<void> posix_file_system::rename(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return os_error(to, "rename the finished file to its final name", errno);
}

CAUSEWAY_DECL result<void> posix_file_system::unlink(const std::string& path) {
  if (::unlink(path.c_str()) == 0) return {};
  return os_error(path, "remove it", errno);
}

CAUSEWAY_DECL result<void> posix_file_system::sync_folder(const std::string& folder) {
  CAUSEWAY_ASSIGN(const owned_descriptor opened, detail::open_file(folder, O_RDONLY | O_DIRECTORY));
  if (::fsync(opened.get()) == 0 || errno == EINVAL || errno == ENOTSUP) return {};
  return os_error(folder, "make the folder durable (fsync)", errno);
}

CAUSEWAY_DECL folder_state posix_file_system::look(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return folder_state::missing;
  return ::access(path.c_str(), R_OK) == 0 ? folder_state::present : folder_state::closed;
}

CAUSEWAY_DECL result<void> posix_file_system::make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return {};
  return os_error(path, "make the folder", errno);
}

CAUSEWAY_DECL result<void> posix_file_system::remove_folder(const std::string& path) {
  if (::rmdir(path.c_str()) == 0) return {};
  return os_error(path, "remove the folder", errno);
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io { namespace detail {

CAUSEWAY_DECL result<owned_descriptor> open_file(const std::string& path, int flags) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (fd >= 0) return owned_descriptor{fd};
    if (errno != EINTR) return os_error(path, "open it", errno);
  }
}

CAUSEWAY_DECL result<std::size_t> file_size(const owned_descriptor& file, const std::string& path) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return os_error(path, "ask for its size", errno);
  if (!S_ISREG(info.st_mode)) return fail(errc::io_failed, path, "this is not a regular file. Give the path of a file");
  return static_cast<std::size_t>(info.st_size);
}

CAUSEWAY_DECL result<void> write_all(const owned_descriptor& file, std::span<const std::byte> bytes,
                                     const std::string& path) {
  constexpr std::size_t most = std::size_t{1} << 30U;  // one call writes less than 2 GiB on Linux anyway
  while (!bytes.empty()) {
    const ::ssize_t n = ::write(file.get(), bytes.data(), std::min(bytes.size(), most));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "write to it", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

CAUSEWAY_DECL result<void> sync(const owned_descriptor& file, const std::string& path) {
  if (::fsync(file.get()) == 0) return {};
  return os_error(path, "make it durable (fsync)", errno);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::io::detail

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL result<mapped_file> mapped_file::open(const std::string& path) {
  CAUSEWAY_ASSIGN(const owned_descriptor file, detail::open_file(path, O_RDONLY));
  CAUSEWAY_ASSIGN(const std::size_t size, detail::file_size(file, path));
  mapped_file mapped;
  if (size == 0) return result<mapped_file>{std::move(mapped)};  // nvcc does not move a local by itself
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return os_error(path, "map it into memory", errno);
  mapped.data_ = data;
  mapped.size_ = size;
  return result<mapped_file>{std::move(mapped)};
}

CAUSEWAY_DECL result<byte_vector> posix_file_system::read(const std::string& path) {
  CAUSEWAY_ASSIGN(const owned_descriptor file, detail::open_file(path, O_RDONLY));
  CAUSEWAY_ASSIGN(const std::size_t size, detail::file_size(file, path));
  byte_vector content(size);
  std::size_t at = 0;
  while (at < size) {
    const ::ssize_t n = ::read(file.get(), content.data() + at, std::min(size - at, std::size_t{1} << 30U));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error(path, "read it", errno);
    if (n == 0) break;  // became shorter while we read; its own checks will tell
    at += static_cast<std::size_t>(n);
  }
  content.resize(at);
  return content;
}

CAUSEWAY_DECL result<std::vector<std::string>> posix_file_system::list(const std::string& folder) {
  DIR* stream = ::opendir(folder.c_str());
  if (stream == nullptr) return os_error(folder, "list the folder", errno);
  std::vector<std::string> names;
  struct stat info {};
  for (;;) {
    errno = 0;  // readdir tells its errors by errno alone; a list cut short would hide the newest file
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (::stat((folder + '/' + name).c_str(), &info) == 0 && S_ISREG(info.st_mode)) names.push_back(std::move(name));
  }
  const int code = errno;
  ::closedir(stream);
  if (code != 0) return os_error(folder, "list the folder", code);
  std::sort(names.begin(), names.end());
  return names;
}

}}}  // namespace causeway::CAUSEWAY_ABI::io

#endif  // CAUSEWAY_IO_IMPL_FILE_IPP
