// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_IMPL_FILE_STORAGE_IPP
#define CAUSEWAY_IO_IMPL_FILE_STORAGE_IPP

#include <causeway/io/file_storage.hpp>

#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

CAUSEWAY_DECL error os_error(const std::string& path, const std::string& doing, int code) {
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

}}}  // namespace causeway::CAUSEWAY_ABI::io

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io { namespace detail {

CAUSEWAY_DECL std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::io::detail

#endif  // CAUSEWAY_IO_IMPL_FILE_STORAGE_IPP
