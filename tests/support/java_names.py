"""Resolve each name of a Java class once per process."""


def cache_java_names():
    """Cache the classes and methods that py4j resolves; without a cache it asks the JVM for each use.

    For a name such as ``PythonUtils``, the JVM then searches about 270 jars for one class after the
    other. Fields are not cached, because their values change.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

    def caching(resolve):
        def resolve_once(self, name):
            answer = resolve(self, name)
            # An unknown name is a package until it is imported; class names begin with a capital
            # letter.
            is_package = isinstance(answer, JavaPackage) and name[:1].islower()
            if is_package or isinstance(answer, JavaClass | JavaMember):
                self.__dict__[name] = answer
            return answer

        return resolve_once

    for owner in (JVMView, JavaPackage, JavaClass):
        owner.__getattr__ = caching(owner.__getattr__)
