// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_ASIO_ASK_HPP
#define CAUSEWAY_NET_ASIO_ASK_HPP

// What somebody can ask at the address of a run before he is a peer of it, and knows more than that address: which run it
// is, and what its program has to say to newcomers, in pieces. One frame asks for one piece, the other side answers with
// it, and this again and again on one connection. A host of fixed peers and a fabric answer alike.

#include <causeway/core/clock.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/endpoint.hpp>
#include <causeway/net/frame.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

struct inquiry_options {
  time_point deadline = no_deadline;        ///< for an answer to come; dials again until then
  const std::atomic<bool>* stop = nullptr;  ///< set it to give up (errc::cancelled)
  bool once = false;                        ///< dial once, and end with errc::unreachable if nobody listens
};

/// A connection on which one asks. Blocks the calling thread; not thread-safe.
class inquiry {
 public:
  /// Dials `address` and asks for the first piece of item 0. errc::unreachable or errc::timeout if nobody answers, else
  /// what the other side says against it.
  CAUSEWAY_DECL static result<inquiry> open(const endpoint& address, const inquiry_options& options);

  inquiry(inquiry&&) noexcept;
  inquiry& operator=(inquiry&&) noexcept;
  ~inquiry();

  CAUSEWAY_DECL [[nodiscard]] std::uint64_t run_id() const noexcept;
  /// Item 0, of one piece.
  [[nodiscard]] const std::vector<std::byte>& about() const noexcept { return about_; }

  /// Reads `length` bytes of `item` from `offset` on, in order, and gives them to `sink`. errc::corrupt if there are fewer.
  /// Item 0 has one piece, however long.
  CAUSEWAY_DECL result<void> read(std::uint32_t item, std::uint64_t offset, std::uint64_t length,
                                  const std::function<result<void>(std::span<const std::byte>)>& sink);

 private:
  struct state;  // what handlers point at: stays where it is when the inquiry moves

  CAUSEWAY_DECL inquiry(endpoint address, const inquiry_options& options);

  CAUSEWAY_DECL result<void> connect();

  CAUSEWAY_DECL void ask(std::uint32_t item, std::uint64_t offset);

  CAUSEWAY_DECL result<std::vector<std::byte>> next_answer();

  CAUSEWAY_DECL result<void> run_until(const std::function<bool()>& done, time_point deadline);

  endpoint address_;
  inquiry_options options_;
  std::unique_ptr<state> state_;
  std::vector<std::byte> about_;
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#ifndef CAUSEWAY_COMPILED
#include <causeway/net/impl/asio_ask.ipp>
#endif

#endif  // CAUSEWAY_NET_ASIO_ASK_HPP
