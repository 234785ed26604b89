// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_IO_STORAGE_HPP
#define CAUSEWAY_IO_STORAGE_HPP

// What the library needs of a disk, so small that a simulator can stand in for it: whole files, written atomically. A file
// under its final name is either the old one or the complete new one; a writer that fails or dies leaves the old one.

#include <causeway/core/concepts.hpp>
#include <causeway/core/result.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace io {

using byte_vector = std::vector<std::byte>;

/// Takes the next piece of a file. The piece is free again when the call returns.
using byte_sink = std::function<result<void>(std::span<const std::byte>)>;

/// Writes a whole file into a sink, piece by piece. Called once per write; an error of its own ends the write.
using byte_producer = std::function<result<void>(const byte_sink&)>;

/// Requirements. Paths use '/'. Safe to use from several threads for different paths.
///
/// - `write_atomic(path, producer)`: the new content replaces the old one at once, and is durable when the call succeeds.
///   Missing folders are made. On any failure the old content stays and nothing partial remains under `path`.
/// - `read(path)`: the whole content, or errc::not_found.
/// - `list(folder)`: names (without the folder) of the files right in it, sorted; errc::not_found if there is no such
///   folder. Unfinished writes of `write_atomic` may be listed; their names end in ".tmp".
/// - `remove(path)`: a file that is not there counts as removed.
template <class S>
concept Storage = Movable<S> && requires(S& s, const std::string& path, const byte_producer& producer) {
  { s.write_atomic(path, producer) } -> std::same_as<result<void>>;
  { s.read(path) } -> std::same_as<result<byte_vector>>;
  { s.list(path) } -> std::same_as<result<std::vector<std::string>>>;
  { s.remove(path) } -> std::same_as<result<void>>;
};

/// A producer of bytes that exist already; they must outlive the write.
CAUSEWAY_DECL byte_producer produce(std::span<const std::byte> content);

inline byte_producer produce(std::string_view text) { return produce(std::as_bytes(std::span{text.data(), text.size()})); }

/// Any storage, held by value. Copies share the storage. Thread-safe if the storage is.
class any_storage {
 public:
  template <class S>
    requires(!std::same_as<S, any_storage>)
  &&Storage<S> explicit any_storage(S storage) : state_{std::make_shared<model<S>>(std::move(storage))} {}

  CAUSEWAY_DECL result<void> write_atomic(const std::string& path, const byte_producer& producer);
  result<byte_vector> read(const std::string& path) { return state_->read(path); }
  result<std::vector<std::string>> list(const std::string& folder) { return state_->list(folder); }
  result<void> remove(const std::string& path) { return state_->remove(path); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual result<void> write_atomic(const std::string&, const byte_producer&) = 0;
    virtual result<byte_vector> read(const std::string&) = 0;
    virtual result<std::vector<std::string>> list(const std::string&) = 0;
    virtual result<void> remove(const std::string&) = 0;
  };

  template <class S>
  struct model final : interface {
    explicit model(S s) : storage{std::move(s)} {}
    result<void> write_atomic(const std::string& path, const byte_producer& producer) override {
      return storage.write_atomic(path, producer);
    }
    result<byte_vector> read(const std::string& path) override { return storage.read(path); }
    result<std::vector<std::string>> list(const std::string& folder) override { return storage.list(folder); }
    result<void> remove(const std::string& path) override { return storage.remove(path); }
    S storage;
  };

  std::shared_ptr<interface> state_;
};

static_assert(Storage<any_storage>);

}}}  // namespace causeway::CAUSEWAY_ABI::io

#ifndef CAUSEWAY_COMPILED
#include <causeway/io/impl/storage.ipp>
#endif

#endif  // CAUSEWAY_IO_STORAGE_HPP
