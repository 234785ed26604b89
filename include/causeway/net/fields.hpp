// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_NET_FIELDS_HPP
#define CAUSEWAY_NET_FIELDS_HPP

// A message lists its fields once, in their order on the wire, and is written and read by that list:
//
//   void fields(auto& wire) { wire(step, below{stage, most_stages}, loss); }
//
// A field is an unsigned integer; a bool or an enum; a float or double, refused where it is not finite; something that has
// `fields` itself, or `put(byte_writer&)` and `get(byte_reader&)`, as the ones below. What a stranger sent is never
// believed: a list takes no memory before its elements have come.

#include <causeway/config/config.hpp>
#include <causeway/core/result.hpp>
#include <causeway/net/codec.hpp>

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace causeway { inline namespace CAUSEWAY_ABI { namespace net {

namespace detail {

/// The integer whose bytes stand for a T.
template <class T>
constexpr auto integer_like() {
  if constexpr (std::is_same_v<T, bool>) {
    return std::uint8_t{};
  } else if constexpr (std::is_enum_v<T>) {
    return std::make_unsigned_t<std::underlying_type_t<T>>{};
  } else if constexpr (std::floating_point<T>) {
    return std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>{};
  } else if constexpr (std::unsigned_integral<T>) {
    return T{};
  }
}
template <class T>
using integer_of = decltype(integer_like<T>());

}  // namespace detail

/// Leaves what it writes as it is.
class field_writer {
 public:
  static constexpr bool reads = false;

  explicit field_writer(byte_writer& out) noexcept : out_{&out} {}

  template <class... Fields>
  void operator()(Fields&&... fields) {
    (one(fields), ...);
  }
  /// Of what was read: whether it can be.
  void must(bool) const noexcept {}

 private:
  template <class T>
  void one(T& field) {
    using integer = detail::integer_of<T>;
    if constexpr (std::floating_point<T>) {
      out_->put(std::bit_cast<integer>(field));
    } else if constexpr (!std::is_void_v<integer>) {
      out_->put(static_cast<integer>(field));
    } else if constexpr (requires { field.put(*out_); }) {
      field.put(*out_);
    } else {
      field.fields(*this);
    }
  }

  byte_writer* out_;
};

class field_reader {
 public:
  static constexpr bool reads = true;

  explicit field_reader(byte_reader& in) noexcept : in_{&in} {}

  template <class... Fields>
  void operator()(Fields&&... fields) {
    (one(fields), ...);
  }
  void must(bool holds) const noexcept {
    if (!holds) in_->refuse();
  }

 private:
  template <class T>
  void one(T& field) {
    using integer = detail::integer_of<T>;
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = in_->get<std::uint8_t>();
      field = byte == 1;
      must(byte <= 1);
    } else if constexpr (std::floating_point<T>) {
      field = std::bit_cast<T>(in_->get<integer>());
      must(std::isfinite(field));
    } else if constexpr (!std::is_void_v<integer>) {
      field = static_cast<T>(in_->get<integer>());
    } else if constexpr (requires { field.get(*in_); }) {
      field.get(*in_);
    } else {
      field.fields(*this);
    }
  }

  byte_reader* in_;
};

/// Whether a message asks for what both sides know.
template <class Message, class Wire, class... Context>
concept ListedWith = requires(Message& m, Wire& wire, const Context&... context) {
  m.fields(wire, context...);
};

/// `context` is for those that ask for it.
template <class Message, class Wire, class... Context>
void list_fields(Message& m, Wire& wire, const Context&... context) {
  if constexpr (ListedWith<Message, Wire, Context...>) {
    m.fields(wire, context...);
  } else {
    m.fields(wire);
  }
}

template <class Message, class... Context>
void put_fields(byte_writer& out, const Message& m, const Context&... context) {
  field_writer wire{out};
  list_fields(const_cast<Message&>(m), wire, context...);  // a writer only reads it
}

template <class Message, class... Context>
void get_fields(byte_reader& in, Message& m, const Context&... context) {
  field_reader wire{in};
  list_fields(m, wire, context...);
}

template <class Message>
[[nodiscard]] std::vector<std::byte> encode_fields(const Message& m) {
  byte_writer out;
  put_fields(out, m);
  return std::move(out).take();
}

/// `what` names it in an error: errc::corrupt or errc::too_large.
template <class Message>
[[nodiscard]] result<Message> decode_fields(std::span<const std::byte> bytes, std::string_view what) {
  byte_reader in{bytes};
  Message m;
  get_fields(in, m);
  CAUSEWAY_TRY(in.finish(what));
  return m;
}

// ---- fields with a limit -----------------------------------------------------------------------------------------------

/// An integer or an enum below `limit`.
template <class T>
struct below {
  T& value;
  std::uint64_t limit;

  below(T& field, std::uint64_t bound) noexcept : value{field}, limit{bound} {}
  void put(byte_writer& out) const { field_writer{out}(value); }
  void get(byte_reader& in) const {
    field_reader{in}(value);
    if (static_cast<std::uint64_t>(value) >= limit) in.refuse();
  }
};

/// Printable text of at most `limit` bytes, as byte_reader::get_text.
struct text {
  std::string& value;
  std::size_t limit;

  void put(byte_writer& out) const { out.put_text(value); }
  void get(byte_reader& in) const { value = in.get_text(limit); }
};

namespace detail {
struct one_field {
  void operator()(auto& wire, auto& element) const { wire(element); }
};
}  // namespace detail

/// At most `most` elements behind their number, a u32. `each(wire, element)` lists the fields of one.
template <class T, class Each = detail::one_field>
struct list {
  std::vector<T>& values;
  std::size_t most;
  Each each;

  list(std::vector<T>& elements, std::size_t bound, Each fields = {}) : values{elements}, most{bound}, each{fields} {}
  void put(byte_writer& out) const {
    out.put(static_cast<std::uint32_t>(values.size()));
    field_writer wire{out};
    for (T& v : values) each(wire, v);
  }
  void get(byte_reader& in) const {
    const std::size_t count = in.get<std::uint32_t>();
    if (count > most || count > in.remaining()) in.refuse();
    values.clear();
    field_reader wire{in};
    for (std::size_t i = 0; i < count && in.ok(); ++i) each(wire, values.emplace_back());
  }
};

}}}  // namespace causeway::CAUSEWAY_ABI::net

#endif  // CAUSEWAY_NET_FIELDS_HPP
