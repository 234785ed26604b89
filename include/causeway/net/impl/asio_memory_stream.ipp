// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_MEMORY_STREAM_IPP
#define CAUSEWAY_NET_IMPL_ASIO_MEMORY_STREAM_IPP

#include <causeway/net/asio_memory_stream.hpp>

#include <causeway/core/clock.hpp>
#include <causeway/core/hash.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL memory_stream::memory_stream(tcp::executor executor, shared_rings rings, owned_descriptor socket)
    : rings_{std::move(rings)}, socket_{std::move(executor), asio::local::stream_protocol{}, socket.get()} {
  (void)socket.release();
  rings_.close_descriptor();
}

CAUSEWAY_DECL std::size_t memory_stream::send(const std::array<asio::const_buffer, 2>& from, std::error_code& failure) {
  if (gone_) {
    failure = asio::error::broken_pipe;
    return 0;
  }
  const auto view = [](const asio::const_buffer& b) {
    return std::span{static_cast<const std::byte*>(b.data()), b.size()};
  };
  const std::size_t n = rings_.write(view(from[0]), view(from[1]));
  if (rings_.broken()) {
    failure = std::make_error_code(std::errc::bad_message);
  } else if (n == 0) {
    failure = asio::error::would_block;
  }
  wake();
  return n;
}

CAUSEWAY_DECL std::size_t memory_stream::receive(const std::array<asio::mutable_buffer, 2>& to, std::error_code& failure) {
  std::size_t moved = 0;
  for (const asio::mutable_buffer& b : to) {
    const std::size_t n = rings_.read({static_cast<std::byte*>(b.data()), b.size()});
    moved += n;
    if (n < b.size()) break;
  }
  if (rings_.broken()) {
    failure = std::make_error_code(std::errc::bad_message);
  } else if (moved == 0) {
    failure = gone_ ? asio::error::make_error_code(asio::error::eof) : make_error_code(asio::error::would_block);
  }
  wake();
  return moved;
}

// A full socket has wakes in it already.
CAUSEWAY_DECL void memory_stream::wake() {
  if (!rings_.must_wake()) return;
  const char word = 0;
  (void)::send(socket_.native_handle(), &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL);
}

CAUSEWAY_DECL void memory_stream::hear() {
  std::array<char, 64> words;
  const auto n = ::recv(socket_.native_handle(), words.data(), words.size(), MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) gone_ = true;
}

// Equal for no two offers of machines that share a network namespace, nor of two that a tunnel joins.
CAUSEWAY_DECL std::uint64_t memory_offer::fresh_number() {
  static std::atomic<std::uint64_t> count{0};
  const auto now = steady_clock{}.now().since_start.count();
  const std::uint64_t here = reinterpret_cast<std::uintptr_t>(&count);
  return hasher{++count}.add_value(now).add_value(here).add_value(::getpid()).finish();
}

CAUSEWAY_DECL owned_descriptor memory_offer::make_socket() {
  return owned_descriptor{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

// An abstract name: no file, and gone with its socket.
template <class Call>
bool memory_offer::with_name(std::uint64_t number, Call call) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const int length = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "causeway-%016llx",
                                   static_cast<unsigned long long>(number));
  const auto all = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
  return call(reinterpret_cast<const sockaddr*>(&name), all) == 0;
}

CAUSEWAY_DECL bool memory_offer::is_ours(const owned_descriptor& socket) {
  ucred who{};
  socklen_t length = sizeof who;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == ::geteuid();
}

CAUSEWAY_DECL bool memory_offer::hand_over(const owned_descriptor& memory, const owned_descriptor& socket) {
  char word = 0;
  iovec content{&word, sizeof word};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = memory.get();
  std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  return ::sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
}

CAUSEWAY_DECL owned_descriptor memory_offer::take_over(const owned_descriptor& socket) {
  char word = 0;
  iovec content{&word, sizeof word};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1) return owned_descriptor{};
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS ||
      rights->cmsg_len != CMSG_LEN(sizeof(int))) {
    return owned_descriptor{};
  }
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
  return owned_descriptor{descriptor};
}

CAUSEWAY_DECL result<memory_offer> memory_offer::make() {
  const std::uint64_t number = fresh_number();
  owned_descriptor listening = make_socket();
  const auto bind = [&](const sockaddr* name, socklen_t length) { return ::bind(listening.get(), name, length); };
  if (listening.get() < 0 || !with_name(number, bind) || ::listen(listening.get(), 8) != 0) {
    return fail(errc::io_failed, "shared memory", "no Unix socket could be made to offer it at");
  }
  return memory_offer{std::move(listening), number};
}

CAUSEWAY_DECL result<std::unique_ptr<memory_stream>> memory_offer::take(std::uint64_t number, tcp::executor executor) {
  owned_descriptor socket = make_socket();
  const auto connect = [&](const sockaddr* name, socklen_t length) { return ::connect(socket.get(), name, length); };
  if (socket.get() < 0 || !with_name(number, connect) || !is_ours(socket)) {
    return fail(errc::not_found, "shared memory", "the other side is not on this machine, or another user's");
  }
  CAUSEWAY_ASSIGN(shared_rings rings, shared_rings::make(shared_ring_bytes));
  if (!hand_over(rings.memory(), socket)) return fail(errc::io_failed, "shared memory", "it could not be handed over");
  return std::make_unique<memory_stream>(std::move(executor), std::move(rings), std::move(socket));
}

CAUSEWAY_DECL result<std::unique_ptr<memory_stream>> memory_offer::accept(tcp::executor executor) {
  for (;;) {  // strangers may have connected, too; they end with the offer
    owned_descriptor socket{::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket.get() < 0) return fail(errc::not_found, "shared memory", "the other side took it, but handed none over");
    if (!is_ours(socket)) continue;
    owned_descriptor memory = take_over(socket);
    if (memory.get() < 0) continue;
    CAUSEWAY_ASSIGN(shared_rings rings, shared_rings::join(std::move(memory)));
    return std::make_unique<memory_stream>(std::move(executor), std::move(rings), std::move(socket));
  }
}

CAUSEWAY_DECL bool is_near(const tcp::socket& socket) {
  std::error_code failure;
  const auto remote = socket.remote_endpoint(failure);
  if (failure) return false;
  const auto local = socket.local_endpoint(failure);
  return !failure && (remote.address().is_loopback() || remote.address() == local.address());
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_MEMORY_STREAM_IPP
