// SPDX-License-Identifier: Apache-2.0
#ifndef CAUSEWAY_CONFIG_CONFIG_HPP
#define CAUSEWAY_CONFIG_CONFIG_HPP

// Switches a user may set, the inline ABI namespace, and a handful of attribute macros. A project can put its own
// switches in <causeway_user_config.hpp>, which is read first when it exists.

#if __has_include(<causeway_user_config.hpp>)
#include <causeway_user_config.hpp>
#endif

#include <causeway/config/version.hpp>

// The inline namespace keeps two copies of the library with different layouts apart in one program.
#define CAUSEWAY_ABI v0_1

// CAUSEWAY_EXPECT checks what our own callers promised. On in debug builds, or where CAUSEWAY_CHECKED is defined; off
// otherwise. What the world can do to us (network, disk, input) is never checked this way: that returns a result.
#if defined(CAUSEWAY_CHECKED) || !defined(NDEBUG)
#include <cstdio>
#include <cstdlib>
#define CAUSEWAY_EXPECT(condition)                                                                                     \
  ((condition) ? static_cast<void>(0)                                                                                  \
               : (std::fprintf(stderr, "causeway: precondition failed: %s (%s:%d)\n", #condition, __FILE__, __LINE__), \
                  std::abort()))
#else
#define CAUSEWAY_EXPECT(condition) static_cast<void>(0)
#endif

// Functions that are no templates have their bodies in impl/*.ipp: part of the headers, or, with CAUSEWAY_COMPILED, of one
// object that all share (causeway::compiled, or a source file of one's own that includes <causeway/impl/src.hpp>). As part
// of the headers they are templates without parameters, so that a compiler instantiates what a body needs only where it is
// called. CAUSEWAY_INLINE is for those that cannot be templates: virtual functions, destructors, copies, and what is passed
// as a pointer. A class whose virtual functions reach far is a template itself, basic_NAME<Whole> with NAME for
// basic_NAME<void>: its bodies say CAUSEWAY_LAZY, and only who makes an object instantiates them.
#define CAUSEWAY_LAZY template <class Whole>
#ifdef CAUSEWAY_COMPILED
#define CAUSEWAY_DECL
#define CAUSEWAY_INLINE
#else
#define CAUSEWAY_DECL template <class...>
#define CAUSEWAY_INLINE inline
#endif

#define CAUSEWAY_ALWAYS_INLINE inline __attribute__((always_inline))
#define CAUSEWAY_NOINLINE __attribute__((noinline))

#if defined(__CUDACC__)
#define CAUSEWAY_HD __host__ __device__
#else
#define CAUSEWAY_HD
#endif

#endif  // CAUSEWAY_CONFIG_CONFIG_HPP
