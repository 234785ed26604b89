// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_IMPL_ASIO_STREAM_WAITS_IPP
#define CAUSEWAY_NET_IMPL_ASIO_STREAM_WAITS_IPP

#include <causeway/net/asio_stream_waits.hpp>

#include <mutex>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net { namespace detail {

CAUSEWAY_DECL void stream_waits::to_read(stream& s) const {
  s.read_armed = true;
  if (s.reads_memory) {
    if (!s.memory->sleep_until_readable()) look_again(s);
    return;
  }
  s.socket.async_wait(tcp::socket::wait_read, completion{[this, &s](std::error_code failure) {
                        const std::lock_guard lock{shared_->mutex};
                        s.read_armed = false;
                        if (!failure) readable_(s);
                      }});
}

CAUSEWAY_DECL void stream_waits::to_write(stream& s) const {
  s.write_armed = true;
  if (s.writes_memory) {
    if (!s.memory->sleep_until_writable()) look_again(s);
    return;
  }
  s.socket.async_wait(tcp::socket::wait_write, completion{[this, &s](std::error_code failure) {
                        const std::lock_guard lock{shared_->mutex};
                        s.write_armed = false;
                        if (!failure) writable_(s);
                      }});
}

CAUSEWAY_DECL void stream_waits::to_be_woken(stream& s) const {
  ++s.wakes;
  s.memory->socket().async_wait(memory_stream::wake_socket::wait_read, completion{[this, &s](std::error_code failure) {
                                  const std::lock_guard lock{shared_->mutex};
                                  --s.wakes;
                                  if (failure || !s.open) return;
                                  s.memory->hear();
                                  if (!s.memory->gone()) to_be_woken(s);
                                  look_into_memory(s);
                                }});
}

CAUSEWAY_DECL void stream_waits::look_again(stream& s) const {
  ++s.wakes;
  asio::post(s.memory->socket().get_executor(), std::function<void()>{[this, &s] {
               const std::lock_guard lock{shared_->mutex};
               --s.wakes;
               if (s.open) look_into_memory(s);
             }});
}

CAUSEWAY_DECL void stream_waits::look_into_memory(stream& s) const {
  if (s.reads_memory && std::exchange(s.read_armed, false)) readable_(s);
  if (s.open && s.writes_memory && std::exchange(s.write_armed, false)) writable_(s);
}

}}}}  // namespace causeway::CAUSEWAY_ABI::net::detail

#endif  // CAUSEWAY_NET_IMPL_ASIO_STREAM_WAITS_IPP
